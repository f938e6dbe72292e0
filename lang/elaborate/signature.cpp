#include "lang/elaborate/signature.h"

#include <fmt/format.h>

#include "graph/base/check.h"
#include "lang/syntax/parser.h"

namespace xrun::lang {

Diagnostic with_signature(Diagnostic diagnostic, const Signature& signature) {
  diagnostic.notes.push_back(signature.text);
  return diagnostic;
}

const Signature& Signatures::of(std::string_view name, std::string_view text, bool variadic) {
  const std::string key = fmt::format("{}{}", name, text);
  if (const auto known = written_.find(key); known != written_.end()) {
    return known->second;
  }
  Diagnostics faults;
  const int32_t file = sources_.add("signature of " + std::string(name), std::string(text));
  auto ast = std::make_shared<Ast>(parse_params(sources_, file, faults));
  XRUN_CHECK(!faults.has_errors(), "a signature does not parse: " + key + ": " + faults.all().front().message);
  Signature signature{.name = std::string(name), .text = key, .variadic = variadic};
  signature.ast = ast.get();
  signature.params = (*ast)[ast->params];
  signature.owned = std::move(ast);
  return written_.emplace(key, std::move(signature)).first->second;
}

const Signature& Signatures::of(const OpDef& op) {
  const auto [at, fresh] = of_ops_.try_emplace(&op);
  if (fresh) {
    at->second = &of(op.name, op.signature, op.variadic);
    written_.find(at->second->text)->second.op = &op;
  }
  return *at->second;
}

const Signature& Signatures::of(const DeclRef& decl) {
  const auto [at, fresh] = declared_.try_emplace(decl.decl);
  Signature& signature = at->second;
  if (fresh) {
    const Ast& ast = decl.file->ast;
    signature.name = std::string(decl.decl->name.text);
    signature.ast = &ast;
    signature.is_pointwise = decl.decl->kind == DeclKind::kPointwise;
    signature.is_optimizer = decl.decl->kind == DeclKind::kOptimizer;
    signature.params = ast[decl.decl->params];
    std::string_view params;
    if (!signature.params.empty()) {
      params = sources_.text(join(signature.params.front().span, signature.params.back().span));
    }
    signature.text = fmt::format("{}({})", signature.name, params);
  }
  return signature;
}

}  // namespace xrun::lang
