// Which cluster a suite or a test needs. Where there is another one, it is skipped loudly, and fails in CI.
import { it } from "@jest/globals";
import { describeReal, describeWithout, itWithout, type RealPart } from "../harness/real-parts.ts";
import { isSampled } from "../harness/sample.ts";
import { clusterKind } from "./cluster-under-test.ts";

/** "any": somebody else's will do. "ours": its nodes are seen into and switched off. "own": the suite takes it apart. */
export type NeededCluster = "any" | "ours" | "own";

/** `parts`: what it needs beside what a cluster is made of. */
export function describeOn(needed: NeededCluster, name: string, parts: readonly RealPart[], body: () => void): void {
  const problem = problemOf(needed);
  if (problem !== undefined) describeWithout([problem], name, body);
  else describeReal(name, clusterKind() === "foreign" ? parts : [...parts, "cluster"], body);
}

export function itOn(needed: NeededCluster, ...test: Parameters<typeof it>): void {
  itWithout(problemOf(needed), ...test);
}

/** A test that each of so many commits in a row runs once, and the long run always. */
export function itSampled(ofCommits: number, ...test: Parameters<typeof it>): void {
  const [name] = test;
  if (isSampled(String(name), ofCommits)) it(...test);
  else it.skip(...test);
}

function problemOf(needed: NeededCluster): string | undefined {
  const kind = clusterKind();
  if (needed === "own" && kind !== "own")
    return "it needs a cluster of its own, to take it apart, and KUBECONFIG names another one";
  if (needed === "ours" && kind === "foreign")
    return "it sees into a cluster's nodes, and KUBECONFIG names a cluster of somebody else";
  return undefined;
}
