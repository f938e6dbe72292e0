// The grammar of docs/reference/language.md, "Grammar", for tree-sitter. Newlines are white space here: a statement ends
// where the next one begins, which is enough for highlighting, folding and selections.
const comma = (rule) => seq(rule, repeat(seq(",", rule)), optional(","));

const DECLARATIONS = [
  "import", "from", "option", "let", "fn", "pointwise", "optimizer", "block", "model", "data", "train", "cluster",
  "schedule", "run", "test", "moved",
];

const PREC = { or: 1, and: 2, not: 3, compare: 4, range: 5, add: 6, multiply: 7, negative: 8, power: 9, postfix: 10 };

module.exports = grammar({
  name: "xgraph",

  word: ($) => $.name,
  extras: ($) => [/\s/, $.comment],
  conflicts: ($) => [[$.type]],

  rules: {
    file: ($) => seq(optional($.edition), repeat($._declaration)),
    edition: ($) => seq("xgraph", $.number),

    _declaration: ($) =>
      choice($.import, $.from, $.option, $.let, $.fn, $.pointwise, $.optimizer, $.block, $.model, $.settings_declaration, $.test, $.moved),
    import: ($) => seq("import", $.string, optional(seq("as", field("name", $.name)))),
    from: ($) => seq("from", $.string, "use", field("name", $.name), repeat(seq(",", field("name", $.name)))),
    option: ($) =>
      prec.right(
        seq("option", field("name", $.name), ":", $.type, optional(seq("=", $._expression)), optional(seq("in", $._expression))),
      ),
    let: ($) => seq("let", field("name", $.name), "=", $._expression),
    fn: ($) => seq("fn", field("name", $.name), $.parameters, "=", $._expression),
    pointwise: ($) => seq("pointwise", field("name", $.name), $.parameters, "=", $._expression),
    optimizer: ($) => seq("optimizer", field("name", $.name), $.parameters, $.body),
    block: ($) =>
      seq("block", field("name", $.name), $.parameters, optional(seq("->", $.type, repeat(seq(",", $.type)))), $.body),
    model: ($) => seq("model", field("name", $.name), optional($.parameters), $.body),
    settings_declaration: ($) =>
      seq(
        choice("data", "train", "cluster", "schedule", "run"),
        optional(field("name", $.name)),
        optional(seq("extends", field("base", $.name))),
        $.settings,
      ),
    test: ($) => seq("test", $.string, $.body),
    moved: ($) => seq("moved", $.string, "->", $.string),

    parameters: ($) => seq("(", optional(comma($.parameter)), ")"),
    parameter: ($) => seq(field("name", $.name), optional(seq(":", $.type)), optional(seq("=", $._expression))),
    type: ($) => choice(seq(optional(seq(field("name", $.name), optional(seq("(", $._expression, ")")))), $.dimensions), seq(field("name", $.name), optional(seq("(", $._expression, ")")))),
    dimensions: ($) => seq("[", optional(comma(choice("...", $._expression))), "]"),

    body: ($) => seq("{", repeat($._statement), "}"),
    _statement: ($) =>
      choice($.input, $.output, $.head, $.param, $.state, $.return, $.assert, $.expect, $.binding, $.tuple_binding),
    input: ($) => seq("input", field("name", $.name), ":", $.type),
    output: ($) => seq("output", $.name, repeat(seq(",", $.name))),
    head: ($) => seq("head", field("name", $.name), "=", $._expression),
    param: ($) => seq("param", field("name", $.name), ":", $.type, "=", $._expression),
    state: ($) => seq("state", field("name", $.name), optional(seq(":", $.type)), "=", $._expression),
    return: ($) => seq("return", $._expression),
    assert: ($) => prec.right(seq("assert", $._expression, optional(seq(",", $.string)))),
    expect: ($) => seq("expect", $._expression),
    binding: ($) => seq(field("name", $.name), "=", $._expression),
    tuple_binding: ($) => seq("(", comma(field("name", $.name)), ")", "=", $._expression),

    settings: ($) => seq("{", repeat(choice($.source, $.setting, $.group)), "}"),
    source: ($) => seq("source", field("name", $.name), "=", $._expression),
    setting: ($) => seq($.setting_path, "=", $._expression),
    group: ($) => seq($.setting_path, optional(field("name", $.name)), $.settings),
    setting_path: ($) => seq($._key, repeat(seq(".", $.name))),
    // Words that begin declarations may also be keys: `optimizer` of `train`, `model` of `run`, a source called `test`.
    _key: ($) => choice($.name, alias(choice(...DECLARATIONS), $.name)),

    _expression: ($) => choice($.pipeline, $._value),
    pipeline: ($) => prec.right(seq($._value, repeat1(seq("->", $._stage)))),
    _stage: ($) => choice($.stage_call, $.repeat, $.residual, $.fork, $.stage_if),
    stage_call: ($) =>
      prec.right(seq(field("function", $.stage_path), optional($.arguments), optional($.label))),
    stage_path: ($) => prec.right(seq($.name, repeat(seq(".", $.name)))),
    repeat: ($) => prec.right(seq("repeat", $._value, optional(seq("as", field("index", $.name))), $.fragment, optional($.label))),
    residual: ($) => prec.right(seq("residual", $.fragment, optional($.label))),
    fork: ($) => prec.right(seq("fork", "{", comma($._pipe), "}", optional($.label))),
    stage_if: ($) => prec.right(seq("if", $._value, $.fragment, optional(seq("else", $.fragment)), optional($.label))),
    fragment: ($) => seq("{", $._pipe, "}"),
    _pipe: ($) => seq($._stage, repeat(seq("->", $._stage))),
    label: ($) => seq("as", field("name", $.name)),

    _value: ($) => choice($.if, $.binary, $.unary, $._primary, $.call, $.index, $.field),
    if: ($) =>
      prec.right(seq("if", $._value, "{", $._expression, "}", "else", choice($.if, seq("{", $._expression, "}")))),
    binary: ($) =>
      choice(
        ...[
          ["or", PREC.or],
          ["and", PREC.and],
          [choice("==", "!=", "<", "<=", ">", ">="), PREC.compare],
          ["..", PREC.range],
          [choice("+", "-"), PREC.add],
          [choice("*", "/", "//", "%"), PREC.multiply],
        ].map(([sign, level]) => prec.left(level, seq($._value, field("operator", sign), $._value))),
        prec.right(PREC.power, seq($._value, field("operator", "^"), $._value)),
      ),
    unary: ($) => choice(prec(PREC.not, seq("not", $._value)), prec(PREC.negative, seq("-", $._value))),
    call: ($) => prec(PREC.postfix, seq(field("function", $._value), $.arguments)),
    index: ($) => prec(PREC.postfix, seq($._value, "[", comma(choice("...", $._expression)), "]")),
    field: ($) => prec(PREC.postfix, seq($._value, ".", field("name", $.name))),
    arguments: ($) => seq(token.immediate("("), optional(comma($.argument)), ")"),
    argument: ($) => seq(optional(seq(field("name", $.name), "=")), $._expression),

    _primary: ($) => choice($.number, $.string, $.constant, $.name, $.parenthesized, $.list),
    parenthesized: ($) => seq("(", comma($._expression), ")"),
    list: ($) => seq("[", optional(comma($._expression)), "]"),
    constant: () => choice("true", "false", "auto", "none"),

    number: () =>
      token(choice(/0x[0-9A-Fa-f_]+/, seq(/\d[\d_]*(\.[\d_]+)?(e[+-]?\d+)?/, optional(/[A-Za-z%][A-Za-z\/]*/), optional(/ (steps?|epochs?|samples?)/)))),
    string: () => token(seq('"', repeat(choice(/[^"\\\n]/, /\\./)), '"')),
    name: () => /[A-Za-z_]\w*/,
    comment: () => token(seq("#", /[^\n]*/)),
  },
});
