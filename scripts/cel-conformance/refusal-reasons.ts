// Why the dialect refuses what cel-spec asks, by what the compiler says: each refusal has exactly one reason, in words for users.

export interface RefusalReason {
  readonly name: string;
  readonly meaning: string;
  readonly message: RegExp;
}

/** The first that matches counts. */
const REASONS: readonly RefusalReason[] = [
  {
    name: "dyn and types",
    meaning: "`dyn`, `type()`, and types as values: each type is known when the policy is compiled",
    message: /^unknown (?:function|name) (?:dyn|type|bool|int|double|string|list|map|null_type|uint|bytes)(?:\(\))?$/,
  },
  {
    name: "uint, bytes, null",
    meaning: "the dialect has no `uint`, `bytes` or `null`",
    message:
      /^null, uint and bytes|^unexpected character: '['"]'$|^unknown function (?:uint|bytes)\(|^bytes\(\) does not take/,
  },
  {
    name: "messages",
    meaning: "messages, enums and extensions of protobuf",
    message:
      /^unexpected character: '\{'$|got LBRACE|^unknown (?:name|function) (?:TestAllTypes|GlobalEnum|google|proto|msg)\b/,
  },
  {
    name: "spellings",
    meaning: "names in back quotes, names and doubles that begin with a dot, form feeds between words",
    message: /^unexpected character: [`\f]$|^unexpected token: DOT$/,
  },
  {
    name: "optional values",
    meaning: "`?.`, `[?…]` and `optional`: `has(…)` or `in` ask whether there is a value",
    message: /QUESTION|^unknown name optional|^optional values|^has\(\) asks/,
  },
  {
    name: "two-variable macros",
    meaning: "macros over key and value or index and item, such as `all(i, v, …)` and `transformList`",
    message: /takes a variable and a condition|^unknown method (?:transformList|transformMap|existsOne)\(/,
  },
  {
    name: "other functions",
    meaning:
      "functions and methods of extensions that the dialect does not have, such as `format`, `split` and `cel.bind`",
    message:
      /^unknown (?:method|function)|^unknown name (?:cel|strings|base64)$|invalid predicate iteration variable|takes two to \d+ numbers/,
  },
  {
    name: "names of the test",
    meaning: "variables that the case brings along, and that are not numbers, texts, bools or times",
    message: /^unknown name/,
  },
  {
    name: "mixed types",
    meaning: "items, branches or operands of different types",
    message: /the items before it are of type|the branches of \?:|needs a bool|does not take/,
  },
  {
    name: "comparisons",
    meaning:
      "an order of texts or bools, equality of lists and maps, and of an int with a double; operators that a type does not have",
    message: /is not defined$/,
  },
  {
    name: "literals",
    meaning: "empty lists and maps, lists of lists, and maps whose keys are not literal strings",
    message: /^an empty list or map|^lists and maps of lists|^the keys of a map/,
  },
  {
    name: "finer times",
    meaning: "times that are finer than a millisecond",
    message: /finer than a millisecond/,
  },
  {
    name: "time zones",
    meaning: "zones that the zone database does not name, such as `-00:00`",
    message: /is not a time zone/,
  },
];

/** Throws for a refusal that no reason covers: the page would not say why. */
export function reasonOf(refusal: string, source: string): RefusalReason {
  const reason = REASONS.find(({ message }) => message.test(refusal));
  if (reason === undefined) throw new Error(`no reason covers "${refusal}" of ${JSON.stringify(source)}`);
  return reason;
}

export function allReasons(): readonly Pick<RefusalReason, "name" | "meaning">[] {
  return REASONS;
}
