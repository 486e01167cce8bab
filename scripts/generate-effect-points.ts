// Collects every effect point of the source into the list that the kill matrix works through (generate-effect-points.ts FILE): a string
// literal "operation/step" given as the first argument of a call on one of the ports.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";

const POINT = /^[a-z0-9-]+\/[a-z0-9-]+$/;
// Calls whose first argument is an effect point; callAsEffect, makeLayout and reportFilesystem take it second.
const PORT_CALLS: Readonly<Record<string, number>> = {
  run: 0,
  create: 0,
  update: 0,
  apply: 0,
  applyOnChange: 0,
  mergePatch: 0,
  delete: 0,
  writeWhole: 0,
  createNew: 0,
  truncate: 0,
  writeKernel: 0,
  makeDirectory: 0,
  remove: 0,
  rewriteExclusively: 0,
  zeroExclusively: 0,
  callAsEffect: 1,
  makeLayout: 1,
  reportFilesystem: 1,
};

function sources(directory: string): string[] {
  return readdirSync(directory, { withFileTypes: true }).flatMap((entry) => {
    const path = join(directory, entry.name);
    if (entry.isDirectory()) return path === "src/contracts/gen" ? [] : sources(path);
    return path.endsWith(".ts") ? [path] : [];
  });
}

function pointsOf(path: string): string[] {
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node)) {
      const name = ts.isPropertyAccessExpression(node.expression)
        ? node.expression.name.text
        : node.expression.getText();
      const argument = node.arguments[PORT_CALLS[name] ?? -1];
      if (argument !== undefined && ts.isStringLiteral(argument) && POINT.test(argument.text))
        found.push(argument.text);
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(path, readFileSync(path, "utf8"), ts.ScriptTarget.Latest, true));
  return found;
}

const [list] = process.argv.slice(2);
if (list === undefined) throw new Error("usage: generate-effect-points.ts FILE");
const points = [...new Set([...sources("src"), ...sources("demo")].flatMap(pointsOf))].sort();
writeFileSync(list, `${JSON.stringify(points, null, 2)}\n`);
