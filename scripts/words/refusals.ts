// The words of one file that a reader should not have to read, each with its place and with what to write instead.
import { REFUSED } from "./refused.ts";
import { commentsOfTypeScript, type Piece, piecesOfMarkdown, piecesOfTypeScript, piecesOfYaml } from "./texts.ts";

export function refusalsIn(path: string, source: string): readonly string[] {
  return piecesOf(path, source).flatMap(({ text, offset }) =>
    REFUSED.flatMap(({ words, instead }) =>
      [...text.matchAll(words)].map(({ 0: found, index }) => {
        const line = source.slice(0, offset + index).split("\n").length;
        return `${path}:${line}: "${found.replace(/\s+(?:#|\/\/|\*)?\s*/g, " ")}": ${instead}`;
      }),
    ),
  );
}

function piecesOf(path: string, source: string): readonly Piece[] {
  if (path.endsWith(".ts")) {
    // The literals of scripts are for developers, and the list of refused words is one of them.
    const literals = path.startsWith("scripts/") ? [] : piecesOfTypeScript(source);
    return [...literals, ...commentsOfTypeScript(source)].sort((one, other) => one.offset - other.offset);
  }
  return path.endsWith(".md") ? piecesOfMarkdown(source) : piecesOfYaml(source);
}
