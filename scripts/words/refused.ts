// The words that texts and comments do without, each with the plain one to use instead.

export interface Refused {
  readonly words: RegExp;
  readonly instead: string;
}

// Between two words of a phrase: a line may end there, in a comment, too.
const GAP = "(?:\\s+(?:#|//|\\*)?\\s*)";

function refused(words: string, instead: string): Refused {
  return { words: new RegExp(`\\b(?:${words.replaceAll(" ", GAP)})\\b`, "gi"), instead };
}

export const REFUSED: readonly Refused[] = [
  refused("told", "say who says it: X reports, X names"),
  refused("tells?", "says, reports, shows"),
  refused("kept", "stays, remains, stored, preserved"),
  refused("wish(?:es|ed)?", "wants, asks for"),
  refused("doubts?", "uncertain, unknown"),
  refused("strays?", "orphan, leftover"),
  refused("lanes?", "keyed queue"),
  refused("tend(?:s|ed)?", "reconciles, checks"),
  refused("whoever", "name who: the user, a process that"),
  refused("nobody", "no user, no process"),
  refused("somebody(?: else)?", "a user, another process"),
  refused("anybody", "any user, every process"),
  refused("beside", "next to, in addition to"),
  refused("side by side", "next to each other, in parallel"),
  refused("for good", "permanently"),
  refused("for ever", "indefinitely, without end"),
  refused("none of", "no, not one of"),
  refused("made again", "recreated"),
  // "There is no" is plain, and so is "is no longer"; what is wrong is `X is no size`.
  refused("(?<!\\bthere )(?:is|are) no(?! longer)", "is not a, are not"),
  refused("(?<!\\bthere )(?:is|are) none", "is not one, are not"),
  refused("looked at", "checked, inspected, read"),
  refused("(?:let|lets|letting) go", "releases"),
  refused("any more", "no longer"),
  refused("meanwhile", "in the meantime means when: until then, while X runs"),
  refused("anew", "again"),
  refused("ago", "N before, since"),
];
