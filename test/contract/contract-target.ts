// What the contract suite runs against: the embedded control plane, a kube-apiserver of its own (see api-under-test.ts), or the API server
// that TIDEMARK_CONTRACT_SERVER names (plain HTTP, as `kubectl proxy` offers it). A case that passes on the embedded one alone is a fault of
// that one.
import { it } from "@jest/globals";
import { createLogger } from "../../src/platform/process/log.ts";
import { isRealApi, startApiUnderTest } from "../harness/api-under-test.ts";

export interface ContractTarget {
  readonly baseUrl: string;
  /** Only then may a case rely on what a running cluster hides: an empty history, the server's own limits. */
  readonly embedded: boolean;
  close(): Promise<void>;
}

export async function startContractTarget(): Promise<ContractTarget> {
  const server = givenServer();
  if (server !== undefined) return { baseUrl: server.replace(/\/$/, ""), embedded: false, close: async () => {} };
  const controlPlane = await startApiUnderTest({ port: 0, log: createLogger("control-plane", "error") });
  return { baseUrl: controlPlane.url, embedded: !isRealApi(), close: () => controlPlane.close() };
}

/** A case of the embedded control plane alone: against another server it is skipped, and says what that one does instead. */
export function itEmbedded(name: string, otherServers: string, body: () => Promise<void>): void {
  if (givenServer() === undefined && !isRealApi()) {
    it(name, body);
    return;
  }
  console.warn(`${name}: not run against a running API server, since ${otherServers}`);
  it.skip(name, body);
}

function givenServer(): string | undefined {
  return process.env["TIDEMARK_CONTRACT_SERVER"];
}
