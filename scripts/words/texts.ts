// What of a file a reader reads, as pieces of it. What is not read in a piece is blanked with as many characters, so that a place in a
// piece is a place in the file.
import ts from "typescript";
import { CST, Lexer, Parser } from "yaml";

export interface Piece {
  readonly text: string;
  readonly offset: number;
}

const LEAST_WORDS = 3;
const CODE = /(`+)(?!`).+?(?<!`)\1(?!`)/gs;

/** Literals that read as sentences; comments, identifiers and what is imported are not. */
export function piecesOfTypeScript(source: string): readonly Piece[] {
  const file = ts.createSourceFile("file.ts", source, ts.ScriptTarget.Latest, true);
  const pieces: Piece[] = [];
  const visit = (node: ts.Node): void => {
    const offset = node.getStart(file);
    if (ts.isTemplateExpression(node)) pieces.push({ text: textOfTemplate(node, file), offset });
    else if (
      ts.isStringLiteralLike(node) &&
      !ts.isImportDeclaration(node.parent) &&
      !ts.isExportDeclaration(node.parent)
    ) {
      pieces.push({ text: node.getText(file), offset });
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return pieces.filter(({ text }) => text.trim().split(/\s+/).length >= LEAST_WORDS);
}

/** Comments, those that follow each other as one, without the code in them. */
export function commentsOfTypeScript(source: string): readonly Piece[] {
  const file = ts.createSourceFile("file.ts", source, ts.ScriptTarget.Latest, true);
  const ranges = new Map<number, number>();
  const visit = (node: ts.Node): void => {
    const around = [
      ...(ts.getLeadingCommentRanges(source, node.getFullStart()) ?? []),
      ...(ts.getTrailingCommentRanges(source, node.getEnd()) ?? []),
    ];
    for (const { pos, end } of around) ranges.set(pos, end);
    for (const child of node.getChildren(file)) visit(child);
  };
  visit(file);
  const comments = [...ranges].sort(([one], [other]) => one - other);
  return joined(
    comments.map(([pos, end]) => ({ text: source.slice(pos, end), offset: pos })),
    source,
  ).map(({ text, offset }) => ({ text: text.replace(CODE, blank), offset }));
}

/** All but code, and where links lead. */
export function piecesOfMarkdown(source: string): readonly Piece[] {
  const text = source
    .replace(/^( *)```.*?^ *```$/gms, blank)
    .replace(CODE, blank)
    .replace(/(?<=\])\([^)\s]*\)/g, blank)
    .replace(/https?:\/\/[^\s)>]+/g, blank);
  return [{ text, offset: 0 }];
}

/** Comments, those that follow each other as one, and what definitions and policies say to a user. */
export function piecesOfYaml(source: string): readonly Piece[] {
  const pieces = commentsOf(source);
  for (const token of new Parser().parse(source)) {
    if (token.type !== "document") continue;
    CST.visit(token, ({ key, value }) => {
      if (!CST.isScalar(key) || value === undefined || value === null || !CST.isScalar(value)) return;
      if (YAML_SENTENCES.has(key.source)) pieces.push({ text: CST.stringify(value), offset: value.offset });
    });
  }
  return pieces;
}

const YAML_SENTENCES = new Set(["description", "message", "messageExpression"]);

function commentsOf(source: string): Piece[] {
  const comments: Piece[] = [];
  let offset = 0;
  for (const token of new Lexer().lex(source)) {
    // What the lexer adds of its own: where a document and a scalar begin.
    if (/^[\u0002\u0018\u001f]$/.test(token)) continue;
    if (CST.tokenType(token) === "comment") comments.push({ text: token, offset });
    offset += token.length;
  }
  return joined(comments, source);
}

/** As one where nothing stands between two: a sentence goes on in the next. */
function joined(comments: readonly Piece[], source: string): Piece[] {
  const pieces: Piece[] = [];
  for (const { text, offset } of comments) {
    const last = pieces.at(-1);
    const between = last === undefined ? "" : source.slice(last.offset + last.text.length, offset);
    if (last !== undefined && between.trim() === "")
      pieces[pieces.length - 1] = { text: last.text + between + text, offset: last.offset };
    else pieces.push({ text, offset });
  }
  return pieces;
}

/** What stands in `${}` is one word of the sentence; a literal in it is a piece of its own. */
function textOfTemplate(template: ts.TemplateExpression, file: ts.SourceFile): string {
  const start = template.getStart(file);
  return template.templateSpans.reduce((text, { expression }) => {
    const from = expression.getFullStart() - start;
    const to = expression.getEnd() - start;
    return text.slice(0, from) + blank(text.slice(from, to)) + text.slice(to);
  }, template.getText(file));
}

function blank(text: string): string {
  return text.replace(/\S/g, "…").replace(/[ \t]/g, "…");
}
