// Labels and annotations that are read where they may be absent: the rule fails for those volumes.
import type { ClusterVolumePolicySpec } from "../../contracts/kinds/volume-policy.ts";
import type { Lint } from "./linted-policy.ts";
import { type ASTNode, isName, operandsOf, type Syntax, variableName } from "./syntax.ts";

interface MapReads {
  /** "labels.tier" and so on: what is read, and what is asked for by has() or in. */
  readonly reads: ReadonlySet<string>;
  readonly guards: ReadonlySet<string>;
}

/** Of `messageExpression` nothing: one that fails is left out. */
export const lintUnguardedLabels: Lint = ({ spec, rules, syntax }) => {
  const guaranteed = labelsOf(spec);
  const readsOf = mapReader(syntax);
  return rules.flatMap(({ written: { name, when, toExpression } }) => {
    const sources = toExpression === undefined ? [when] : [when, toExpression];
    const unguarded = sources.flatMap((source) => {
      const { reads, guards } = readsOf(syntax.tree(source));
      return [...reads].filter((key) => !guards.has(key) && !guaranteed.has(key));
    });
    return [...new Set(unguarded)].map(
      (key) => `rule ${name} reads volume.${short(key)} without has(…): it fails where that is absent`,
    );
  });
};

const KEY_CHARS_SHOWN = 48;

function short(key: string): string {
  return key.length > KEY_CHARS_SHOWN ? `${key.slice(0, KEY_CHARS_SHOWN)}…` : key;
}

/** What each selected claim has. */
function labelsOf({ selector }: Pick<ClusterVolumePolicySpec, "selector">): ReadonlySet<string> {
  const required = (selector?.matchExpressions ?? []).filter(({ operator }) => ["In", "Exists"].includes(operator));
  const keys = [...Object.keys(selector?.matchLabels ?? {}), ...required.map(({ key }) => key)];
  return new Set(keys.map((key) => `labels.${key}`));
}

function mapReader(syntax: Syntax): (root: ASTNode) => MapReads {
  const ofVariables = new Map<string, MapReads>();
  const readsOf = (root: ASTNode): MapReads => {
    const reads = new Set<string>();
    const guards = new Set<string>();
    const look = (node: ASTNode): void => {
      const guard = guardedKey(node);
      if (guard !== undefined) return void guards.add(guard);
      const key = mapKey(node);
      if (key !== undefined) reads.add(key);
      const variable = variableName(node);
      if (variable !== undefined) take(variable);
      else for (const operand of operandsOf(node)) look(operand);
    };
    const take = (name: string): void => {
      const tree = syntax.variable(name);
      if (tree === undefined) return;
      const found = ofVariables.get(name) ?? readsOf(tree);
      ofVariables.set(name, found);
      for (const key of found.reads) reads.add(key);
      for (const key of found.guards) guards.add(key);
    };
    look(root);
    return { reads, guards };
  };
  return readsOf;
}

/** Of has(volume.labels.tier) and 'tier' in volume.labels. */
function guardedKey(node: ASTNode): string | undefined {
  if (node.op === "call" && node.args[0] === "has") {
    const [asked] = node.args[1];
    return asked === undefined ? undefined : mapKey(asked);
  }
  if (node.op !== "in") return undefined;
  const [key, map] = node.args;
  const name = mapName(map);
  return name !== undefined && key.op === "value" && typeof key.args === "string" ? `${name}.${key.args}` : undefined;
}

/** Of volume.labels.tier and volume.labels['tier']. */
function mapKey(node: ASTNode): string | undefined {
  if (node.op === ".") {
    const name = mapName(node.args[0]);
    return name === undefined ? undefined : `${name}.${node.args[1]}`;
  }
  if (node.op !== "[]") return undefined;
  const [map, key] = node.args;
  const name = mapName(map);
  return name !== undefined && key.op === "value" && typeof key.args === "string" ? `${name}.${key.args}` : undefined;
}

function mapName(node: ASTNode): string | undefined {
  if (node.op !== "." || !isName(node.args[0], "volume")) return undefined;
  return node.args[1] === "labels" || node.args[1] === "annotations" ? node.args[1] : undefined;
}
