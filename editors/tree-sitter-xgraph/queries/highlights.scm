; Declarations
["xgraph" "import" "from" "option" "let" "fn" "pointwise" "optimizer" "block" "model" "data" "train" "cluster" "schedule" "run" "test" "moved"
 "use" "extends" "in"] @keyword

; Statements, stages, conditions
["input" "output" "head" "param" "state" "assert" "expect" "source" "as" "fork" "residual"] @keyword
["return"] @keyword.return
["if" "else"] @conditional
["repeat"] @repeat
["and" "or" "not"] @keyword.operator

(constant) @constant.builtin
(number) @number
(string) @string
(comment) @comment

(name) @variable
(type name: (name) @type)
(dimensions (name) @type)
(parameter name: (name) @parameter)
(argument name: (name) @parameter)
(setting_path (name) @property)
(label name: (name) @label)
(stage_path (name) @function)
(call function: (name) @function)
(block name: (name) @function)
(fn name: (name) @function)
(pointwise name: (name) @function)
(optimizer name: (name) @function)
(model name: (name) @type)
(settings_declaration name: (name) @type)
(option name: (name) @constant)
(let name: (name) @constant)

["->" "=" "==" "!=" "<" "<=" ">" ">=" "+" "-" "*" "/" "//" "%" "^" ".." "..."] @operator
["(" ")" "[" "]" "{" "}"] @punctuation.bracket
["," ":" "."] @punctuation.delimiter
