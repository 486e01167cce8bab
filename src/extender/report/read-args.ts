// What kube-scheduler asks (ExtenderArgs of k8s.io/kube-scheduler/extender/v1, whose fields carry their Go names), read and checked, in a few
// times the memory of the body whatever is in it. Pure.
import { z } from "zod";
import { MIB } from "../../units/quantity.ts";
import type { ClaimingPod } from "../decide/decide-demand.ts";
import { elementsOf, membersOf, PieceError } from "./json-pieces.ts";

const text = z.string().max(253);

/** Kubernetes is made for 5,000 nodes, and a pod has no more volumes than fit into 1.5 MiB. */
const NAMES_LIMIT = 20_000;
const PARTS_LIMIT = 5000;

/** Its length is looked at first: what is wrong is told of each element, in more memory than the element has. */
function list<T extends z.ZodType>(element: T, limit: number) {
  return z.array(z.unknown()).max(limit).pipe(z.array(element));
}

/** The same of texts, looked at by hand: each question has thousands. A transform or a refinement of zod's would keep them alive for long. */
const texts = z.custom<readonly string[]>(Array.isArray, "expected a list").check(({ value, issues }) => {
  const wrong = (message: string, path: number[]): unknown =>
    issues.push({ code: "custom", message, path, input: value });
  if (!Array.isArray(value)) return;
  if (value.length > NAMES_LIMIT) wrong(`expected at most ${NAMES_LIMIT} elements`, []);
  const other = value.findIndex((one) => typeof one !== "string");
  if (other >= 0) wrong("expected a text", [other]);
});

const volume = z.object({
  name: text,
  persistentVolumeClaim: z.object({ claimName: text }).optional(),
  ephemeral: z.object({}).optional(),
});
const podShape = z.object({
  metadata: z.object({ name: text.min(1), namespace: text.optional(), uid: text.optional() }),
  spec: z.object({ volumes: list(volume, PARTS_LIMIT).nullish() }).optional(),
});
const node = z.object({ metadata: z.object({ name: z.string() }) });
const argsShape = z.object({
  Pod: podShape,
  NodeNames: texts.nullish(),
  Nodes: z.object({ items: list(node, NAMES_LIMIT).nullish() }).nullish(),
});

export interface ExtenderArgs {
  /** As it came: see decide-asked-pod.ts for what of it is believed. */
  readonly pod: ClaimingPod;
  readonly nodeNames: readonly string[];
  /** The nodes as they came, where the scheduler sends them whole (nodeCacheCapable: false); the answer is of the same form. */
  readonly nodes: ReadonlyMap<string, Buffer> | undefined;
}

/** What came is no question of a scheduler; the message says where. */
export class WireError extends Error {
  override name = "WireError";
}

/** Throws WireError. */
export function readArgs(body: Buffer): ExtenderArgs {
  try {
    return argsOf(body);
  } catch (error) {
    if (!(error instanceof PieceError || error instanceof SyntaxError)) throw error;
    throw new WireError(`the body of ${body.length} bytes is no JSON of kube-scheduler: ${error.message}`, {
      cause: error,
    });
  }
}

function argsOf(body: Buffer): ExtenderArgs {
  const large = body.length > PARSED_LIMIT_BYTES ? largeArgs(body) : undefined;
  const read = argsShape.safeParse(large === undefined ? parsed(body) : large.args);
  if (!read.success) {
    const [issue] = read.error.issues;
    throw new WireError(`no ExtenderArgs of kube-scheduler: ${issue?.path.join(".") || "the body"}: ${issue?.message}`);
  }
  const { Pod: pod, NodeNames, Nodes } = read.data;
  if (!NodeNames && !Nodes)
    throw new WireError("no ExtenderArgs of kube-scheduler: it names no nodes, neither as NodeNames nor as Nodes");
  const claiming: ClaimingPod = { metadata: pod.metadata, spec: { volumes: pod.spec?.volumes ?? [] } };
  if (NodeNames) return { pod: claiming, nodeNames: NodeNames, nodes: undefined };
  const names = (Nodes?.items ?? []).map(({ metadata }) => metadata.name);
  const whole = large?.wholeNodes ?? wholeNodesOf(membersOf(body));
  return {
    pod: claiming,
    nodeNames: names,
    nodes: new Map(whole.map((piece, index) => [names[index] ?? "", piece])),
  };
}

/** What is parsed at once: of the smallest values each byte makes some 30. */
const PARSED_LIMIT_BYTES = MIB;
/** An object in the API server. */
const OBJECT_LIMIT_BYTES = 3 * MIB;
const NULL = Buffer.from("null");

/** Of a large body what argsShape looks at, and nothing else. */
function largeArgs(body: Buffer): { readonly args: object; readonly wholeNodes: readonly Buffer[] } {
  const members = membersOf(body);
  const names = given(members.get("NodeNames"));
  const wholeNodes = wholeNodesOf(members);
  const args = {
    Pod: parsed(members.get("Pod") ?? NULL),
    NodeNames: names === undefined ? undefined : elementsOf(names, NAMES_LIMIT).map(parsed),
    Nodes: given(members.get("Nodes")) === undefined ? undefined : { items: wholeNodes.map(nameOnly) },
  };
  return { args, wholeNodes };
}

function nameOnly(item: Buffer): object {
  const { metadata } = Object(parsed(item)) as { metadata?: unknown };
  return { metadata: { name: (Object(metadata) as { name?: unknown }).name } };
}

function wholeNodesOf(args: ReadonlyMap<string, Buffer>): readonly Buffer[] {
  const nodes = given(args.get("Nodes"));
  const items = nodes === undefined ? undefined : given(membersOf(nodes).get("items"));
  return items === undefined ? [] : elementsOf(items, NAMES_LIMIT);
}

function given(piece: Buffer | undefined): Buffer | undefined {
  return piece?.equals(NULL) === true ? undefined : piece;
}

/** Throws SyntaxError and WireError. */
function parsed(piece: Buffer): unknown {
  if (piece.length > OBJECT_LIMIT_BYTES)
    throw new WireError(`no ExtenderArgs of kube-scheduler: an object of ${piece.length} bytes`);
  return JSON.parse(piece.toString("utf8"));
}
