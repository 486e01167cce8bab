// What an expression may cost. Expressions are written by users and run for every volume, so each loop, string and
// recursion in them ends at one of these.

/** Source text; the API schema has the same limit. */
export const MAX_EXPRESSION_CHARS = 4096;
/** Nested operators, calls and parentheses; a chain of 100 `||` nests 100 deep. */
export const MAX_DEPTH = 250;
/** Upper bound of the steps of one evaluation, its variables included. */
export const MAX_COST = 20_000;
/** Comprehensions (`all`, `exists`, `map`, …) inside one another. */
export const MAX_COMPREHENSION_DEPTH = 2;
/** Items of a list or map literal, and of any list that an expression builds. */
export const MAX_LITERAL_ITEMS = 64;
/** Labels or annotations that a comprehension visits; a volume with more fails the rule instead of being cut off. */
export const MAX_VISITED_KEYS = 64;
/** Characters of any string that an expression builds or reads from a map: every search in one is bounded by it. */
export const MAX_STRING_CHARS = 4096;
/** Characters of a text that a pattern is searched in: the longest label or annotation key, and any name or label. */
export const MAX_SEARCHED_CHARS = 320;
/** Source texts of all expressions of one policy; the API schema has the same limit. */
export const MAX_POLICY_CHARS = 32_768;
/** Ranges of characters in all patterns of one policy, as `patternRanges` counts them. */
export const MAX_POLICY_RANGES = 10_000;
/** Characters of all expressions of one namespace's policies, as `policyChars` counts them. */
export const MAX_NAMESPACE_CHARS = 524_288;
/** Ranges of characters in all patterns of one namespace's policies. */
export const MAX_NAMESPACE_RANGES = 100_000;
/** Variables of one policy; the API schema has the same limit. */
export const MAX_VARIABLES = 32;

export const MIN_WINDOW_MS = 1000;
export const MAX_WINDOW_MS = 7 * 24 * 3_600_000;
