-- Neovim as a client of `xrun lsp`, with the configuration of editors/README.md; `make test-lsp` runs it.

local function fail(what)
  io.stderr:write("neovim: " .. what .. "\n")
  vim.cmd("cquit 1")
end

local function expect(holds, what)
  if not holds then
    fail(what)
  end
end

local ok, fault = xpcall(function()
  local path = vim.fn.tempname() .. ".xgraph"
  local model = "xgraph 1\n\nmodel m {\n  input x: f32[N, 8]\n\n  y = x -> Linear(4) -> relu\n  output y\n}\n"
  local file = assert(io.open(path, "w"))
  file:write(model)
  file:close()

  -- The configuration as users have it: the first block of Lua of the page.
  local page = assert(io.open("editors/README.md")):read("*a")
  local config = assert(page:match("```lua\n(.-)```"))
  assert(load(config:gsub('"xrun", "lsp"', string.format("%q, %q", os.getenv("XRUN") or "build/release/xrun", "lsp"))))()
  vim.cmd("edit " .. path)
  expect(vim.bo.filetype == "xgraph", "the type of the file is " .. vim.bo.filetype)

  local function diagnostics()
    return vim.diagnostic.get(0)
  end
  expect(vim.wait(10000, function() return #diagnostics() > 0 end), "no diagnostics")
  expect(diagnostics()[1].lnum == 5 and diagnostics()[1].col == 11, "the diagnostic is elsewhere")

  local function ask(method, more)
    local params = vim.lsp.util.make_position_params()
    params = vim.tbl_extend("force", params, more or {})
    local answers = vim.lsp.buf_request_sync(0, method, params, 5000)
    for _, answer in pairs(answers or {}) do
      return answer.result
    end
  end

  vim.api.nvim_win_set_cursor(0, { 6, 2 })
  expect(ask("textDocument/hover"), "no hover")
  expect(#ask("textDocument/references", { context = { includeDeclaration = true } }) == 2, "not two references")

  -- A fix, carried out by the editor.
  local actions = ask("textDocument/codeAction", {
    range = { start = { line = 5, character = 11 }, ["end"] = { line = 5, character = 11 } },
    context = { diagnostics = {} },
  })
  vim.lsp.util.apply_workspace_edit(actions[1].edit, "utf-16")
  expect(vim.wait(10000, function() return #diagnostics() == 0 end), "the fix leaves diagnostics")
  expect(vim.fn.getline(6) == "  y = x -> linear(4) -> relu", "the fix made " .. vim.fn.getline(6))

  -- Typing in the middle of the text, and formatting.
  vim.api.nvim_buf_set_text(0, 5, 4, 5, 5, { "    =" })
  vim.lsp.buf.formatting_sync(nil, 5000)
  expect(vim.fn.getline(6) == "  y = x -> linear(4) -> relu", "formatting made " .. vim.fn.getline(6))

  vim.lsp.buf_request_sync(0, "textDocument/documentSymbol", { textDocument = vim.lsp.util.make_text_document_params() }, 5000)
  local edit = ask("textDocument/rename", { newName = "z" })
  vim.lsp.util.apply_workspace_edit(edit, "utf-16")
  expect(vim.fn.getline(6):match("^  z = "), "rename made " .. vim.fn.getline(6))
  expect(vim.fn.getline(7) == "  output z", "rename made " .. vim.fn.getline(7))
end, debug.traceback)
if not ok then
  fail(fault)
end
io.stdout:write("neovim: ok\n")
vim.cmd("qall!")
