// The nodes of the cluster by number, so that what is kept of thousands of them can lie side by side in lists.
import type { NodeTaken } from "../apply/ledger.ts";
import type { NodeFacts } from "../decide/node-facts.ts";

export interface KnownNode {
  readonly facts: NodeFacts;
  readonly taken: NodeTaken;
}

export interface ReadableNodes {
  /** From 0 on, of no other node at this time; undefined: it is not known. */
  numberOf(nodeName: string): number | undefined;
  /** Of a number that a node has. */
  nodeAt(number: number): KnownNode;
  /** By the node's number: another one after each change of the node, and of what is taken of it. */
  readonly versions: readonly number[];
  nodes(): Iterable<KnownNode>;
}

export interface KnownNodes extends ReadableNodes {
  /** Added, or changed. */
  put(node: KnownNode): void;
  remove(nodeName: string): void;
  /** Something else is taken of it. */
  touch(nodeName: string): void;
}

export function createKnownNodes(): KnownNodes {
  const numbers = new Map<string, number>();
  const nodes: (KnownNode | undefined)[] = [];
  const versions: number[] = [];
  /** Of nodes that are gone. */
  const free: number[] = [];
  const change = (number: number): void => {
    versions[number] = (versions[number] ?? 0) + 1;
  };
  return {
    numberOf: (nodeName) => numbers.get(nodeName),
    nodeAt: (number) => {
      const node = nodes[number];
      if (node === undefined) throw new Error(`no node has the number ${number}`);
      return node;
    },
    versions,
    nodes: () => nodes.filter((node) => node !== undefined),
    put: (node) => {
      const number = numbers.get(node.facts.name) ?? free.pop() ?? nodes.length;
      numbers.set(node.facts.name, number);
      nodes[number] = node;
      change(number);
    },
    remove: (nodeName) => {
      const number = numbers.get(nodeName);
      if (number === undefined) return;
      numbers.delete(nodeName);
      nodes[number] = undefined;
      free.push(number);
    },
    touch: (nodeName) => {
      const number = numbers.get(nodeName);
      if (number !== undefined) change(number);
    },
  };
}
