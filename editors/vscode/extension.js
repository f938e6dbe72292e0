// Starts `xrun lsp` for files of the language.
const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = () => {
  const command = workspace.getConfiguration("xgraph").get("command");
  client = new LanguageClient("xgraph", "xrun", { command, args: ["lsp"] }, { documentSelector: [{ language: "xgraph" }] });
  return client.start();
};

exports.deactivate = () => client && client.stop();
