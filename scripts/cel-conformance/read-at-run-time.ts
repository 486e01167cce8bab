// A case whose literals, and the variables that its test binds, are read from annotations instead: what is constant is computed when an
// expression is compiled, and this is how the same is asked of what runs for a volume.
import { type ASTNode, createParser } from "../../src/policy-engine/cel/parser.ts";
import type { ConformanceCase, SpecifiedValue } from "./cases.ts";

export interface AtRunTime {
  readonly source: string;
  readonly annotations: Readonly<Record<string, string>>;
}

interface Place {
  readonly start: number;
  readonly end: number;
  /** Undefined: it stays as it is written. */
  readonly read: Read | undefined;
}

/** How a value is read of a text. */
interface Read {
  readonly text: string;
  readonly from: (annotation: string) => string;
}

/** Undefined where it does not parse, or has nothing to read. */
export function readAtRunTime({ source, bindings }: ConformanceCase): AtRunTime | undefined {
  const annotations: Record<string, string> = {};
  let written = "";
  let at = 0;
  for (const { start, end, read } of placesIn(source, bindings)) {
    if (read === undefined) continue;
    const name = `v${Object.keys(annotations).length}`;
    annotations[name] = read.text;
    written += source.slice(at, start) + read.from(`volume.annotations.${name}`);
    at = end;
  }
  return at === 0 ? undefined : { source: written + source.slice(at), annotations };
}

function placesIn(source: string, bindings: ConformanceCase["bindings"]): Place[] {
  try {
    const places: Place[] = [];
    collect(createParser([]).parse(source).node, bindings, places);
    return places.sort((a, b) => a.start - b.start);
  } catch {
    return [];
  }
}

function collect(node: ASTNode, bindings: ConformanceCase["bindings"], places: Place[]): void {
  const { start, end } = node;
  if (node.op === "value") places.push({ start, end, read: readOfLiteral(node.args) });
  else if (node.op === "id") places.push({ start, end, read: readOfBinding(bindings[node.args]) });
  else if (node.op === "-_" && node.args.op === "value" && isNumber(node.args.args))
    places.push({ start, end: node.args.end, read: readOfLiteral(-node.args.args) });
  else for (const child of nodesIn(node.args)) collect(child, bindings, places);
}

function nodesIn(args: unknown): ASTNode[] {
  if (Array.isArray(args)) return args.flatMap(nodesIn);
  return typeof args === "object" && args !== null && "op" in args ? [args as ASTNode] : [];
}

function isNumber(value: unknown): value is number | bigint {
  return typeof value === "number" || typeof value === "bigint";
}

const AS_IT_IS = (annotation: string): string => annotation;
const calling =
  (name: string) =>
  (annotation: string): string =>
    `${name}(${annotation})`;

function readOfLiteral(value: unknown): Read | undefined {
  if (typeof value === "bigint") return { text: String(value), from: calling("int") };
  if (typeof value === "number") return { text: Object.is(value, -0) ? "-0" : String(value), from: calling("double") };
  return typeof value === "string" ? { text: value, from: AS_IT_IS } : undefined;
}

const READ_OF: Readonly<Record<string, Read["from"]>> = {
  int64Value: calling("int"),
  doubleValue: calling("double"),
  stringValue: AS_IT_IS,
  boolValue: (annotation) => `(${annotation} == 'true')`,
  "type.googleapis.com/google.protobuf.Duration": calling("duration"),
  "type.googleapis.com/google.protobuf.Timestamp": calling("timestamp"),
};

function readOfBinding(bound: SpecifiedValue | undefined): Read | undefined {
  const [member, value] = Object.entries(bound ?? {})[0] ?? [];
  const { "@type": type, value: text } = (member === "objectValue" ? value : {}) as {
    "@type"?: string;
    value?: string;
  };
  const from = READ_OF[type ?? member ?? ""];
  return from && { text: text ?? String(value), from };
}
