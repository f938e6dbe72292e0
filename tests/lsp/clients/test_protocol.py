"""`xrun lsp` as a client of another project sees it: pytest-lsp checks every message against the protocol's types."""

import os
import pathlib
import subprocess

import pytest
import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

ROOT = pathlib.Path(__file__).resolve().parents[3]
XRUN = os.environ.get("XRUN", str(ROOT / "build/release/xrun"))
MODEL = ROOT / "models/glyphs.xgraph"
URI = MODEL.as_uri()
TEXT = MODEL.read_text()
LINES = TEXT.split("\n")
ID = types.TextDocumentIdentifier(URI)
WHOLE = types.Range(types.Position(0, 0), types.Position(len(LINES) - 1, 0))


@pytest_lsp.fixture(config=ClientServerConfig(server_command=[XRUN, "lsp"]))
async def client(lsp_client: LanguageClient):
    await lsp_client.initialize_session(
        types.InitializeParams(capabilities=client_capabilities("visual-studio-code"), root_uri=ROOT.as_uri())
    )
    lsp_client.text_document_did_open(
        types.DidOpenTextDocumentParams(types.TextDocumentItem(URI, "xgraph", 1, TEXT))
    )
    await lsp_client.wait_for_notification("textDocument/publishDiagnostics")
    yield
    await lsp_client.shutdown_session()


def place(word: str, nth: int = 0) -> types.Position:
    found = [(row, line.find(word)) for row, line in enumerate(LINES) if word in line and not line.startswith("#")]
    return types.Position(*found[nth])


async def change(client: LanguageClient, at: types.Position, text: str, end: types.Position | None = None):
    client.text_document_did_change(
        types.DidChangeTextDocumentParams(
            types.VersionedTextDocumentIdentifier(version=2, uri=URI),
            [types.TextDocumentContentChangePartial(types.Range(at, end or at), text)],
        )
    )
    await client.wait_for_notification("textDocument/publishDiagnostics")
    return client.diagnostics[URI]


async def test_diagnostics_and_code_actions(client: LanguageClient):
    assert list(client.diagnostics[URI]) == []
    found = await change(client, place("basic\n".strip(), 2), "Flatten -> ")
    assert found and all(one.code.startswith("XG") and one.source == "xrun" for one in found)
    assert found[0].code_description.href.endswith(f"{found[0].code}.md")
    actions = await client.text_document_code_action_async(
        types.CodeActionParams(ID, found[0].range, types.CodeActionContext(diagnostics=[found[0]]))
    )
    fix = next(one for one in actions if one.kind == types.CodeActionKind.QuickFix)
    assert fix.edit.changes[URI][0].new_text == "flatten"
    assert any(one.kind == "source.fixAll.xrun" for one in actions)


async def test_hover_and_inlay_hints(client: LanguageClient):
    card = await client.text_document_hover_async(types.HoverParams(ID, place("conv(64, 3)")))
    assert "width" in card.contents.value and "f32[N, 64, 16, 16]" in card.contents.value
    hints = await client.text_document_inlay_hint_async(types.InlayHintParams(ID, WHOLE))
    assert "f32[N, 256]" in [hint.label for hint in hints]


async def test_completion(client: LanguageClient):
    at = place("-> conv(64, 3)")
    await change(client, at, "-> ")
    found = await client.text_document_completion_async(
        types.CompletionParams(ID, types.Position(at.line, at.character + 3))
    )
    order = {item.label: item.sort_text for item in found.items}
    assert order["conv"] < order["linear"], "an image flows there"


async def test_definition_references_rename(client: LanguageClient):
    use = place("feature", 1)
    there = await client.text_document_definition_async(types.DefinitionParams(ID, use))
    assert there.range.start == place("feature")
    uses = await client.text_document_references_async(
        types.ReferenceParams(types.ReferenceContext(include_declaration=True), ID, use)
    )
    edit = await client.text_document_rename_async(types.RenameParams(ID, use, "embedding"))
    assert len(edit.changes[URI]) == len(uses) == 3
    head = await client.text_document_rename_async(types.RenameParams(ID, place("character ="), "glyph"))
    assert head.change_annotations["tensors"].needs_confirmation, "a head names tensors"


async def test_formatting_tokens_folding_symbols(client: LanguageClient):
    options = types.FormattingOptions(tab_size=2, insert_spaces=True)
    assert not await client.text_document_formatting_async(types.DocumentFormattingParams(ID, options))
    await change(client, types.Position(4, 0), "\n\n\n")
    edits = await client.text_document_formatting_async(types.DocumentFormattingParams(ID, options))
    assert len(edits) == 1
    tokens = await client.text_document_semantic_tokens_full_async(types.SemanticTokensParams(ID))
    assert len(tokens.data) > 500 and len(tokens.data) % 5 == 0
    folds = await client.text_document_folding_range_async(types.FoldingRangeParams(ID))
    symbols = await client.text_document_document_symbol_async(types.DocumentSymbolParams(ID))
    assert len(folds) > 5 and {"basic", "glyphs", "fonts"} <= {symbol.name for symbol in symbols}


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"Content-Length: 1000000000\r\n\r\n" + b"x" * 1000,
        b"Content-Length: ten\r\n\r\n",
        b"Content-Length: 5\r\n\r\nabc",
        b"\x00" * 100_000,
        b"Content-Length: 50000\r\n\r\n" + b"[" * 50_000,
    ],
)
def test_a_client_that_breaks_off_ends_the_server(sent: bytes):
    ended = subprocess.run([XRUN, "lsp"], input=sent, capture_output=True, timeout=20)
    assert ended.returncode == 1 and ended.stderr == b""
