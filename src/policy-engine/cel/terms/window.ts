// volume.usedRatioMax('24h') and volume.usedBytesMax('24h'): the peak of a window. Windows are literals, since the history to
// keep is decided when a policy is compiled.
import { formatDuration, parseDuration } from "../../../units/duration.ts";
import type { Compilation, Window } from "../compilation.ts";
import { usedBytesMax, usedRatioMax } from "../fact-table.ts";
import { MAX_WINDOW_MS, MIN_WINDOW_MS } from "../limits.ts";
import type { ASTNode } from "../parser.ts";
import { Refusal } from "../problem.ts";
import { didYouMean } from "../suggestion.ts";
import { type Term, term } from "../term.ts";

const EXAMPLE = "write a literal such as '24h'";

/** Compiles `volume.name(window)`. Throws Refusal. */
export function compileWindow(node: ASTNode, name: string, args: readonly ASTNode[], context: Compilation): Term {
  if (name !== "usedRatioMax" && name !== "usedBytesMax")
    throw new Refusal(node, `volume has no function ${name}()`, didYouMean(name, ["usedRatioMax", "usedBytesMax"]));
  const [window] = args;
  if (args.length !== 1 || window === undefined) throw new Refusal(node, `${name}() takes one window`, EXAMPLE);
  const windowMs = windowOf(window);
  addWindow(context.usage.windows, { function: name, windowMs });
  context.usage.reads.add(`volume.${name}`);
  if (name === "usedBytesMax")
    return term({
      range: node,
      type: "int",
      unit: "bytes",
      operands: [],
      run: (scope) => usedBytesMax(scope, windowMs),
    });
  return term({
    range: node,
    type: "double",
    unit: "ratio",
    operands: [],
    run: (scope) => usedRatioMax(scope, windowMs),
  });
}

function windowOf(node: ASTNode): number {
  if (node.op !== "value" || typeof node.args !== "string")
    throw new Refusal(node, "the window is not a literal", EXAMPLE);
  let windowMs: number;
  try {
    windowMs = parseDuration(node.args);
  } catch (error) {
    throw new Refusal(node, (error as Error).message, EXAMPLE);
  }
  if (Number.isInteger(windowMs) && windowMs >= MIN_WINDOW_MS && windowMs <= MAX_WINDOW_MS) return windowMs;
  const range = `${formatDuration(MIN_WINDOW_MS)} to ${formatDuration(MAX_WINDOW_MS)}`;
  throw new Refusal(node, `a window of ${node.args} is out of range`, `windows are ${range}`);
}

function addWindow(windows: Window[], window: Window): void {
  const isKnown = windows.some((one) => one.function === window.function && one.windowMs === window.windowMs);
  if (!isKnown) windows.push(window);
}
