// What the contract suite runs against: the embedded control plane, or the API server that TIDEMARK_CONTRACT_SERVER names
// (plain HTTP, as `kubectl proxy` offers it). A case that fails there and passes here is a fault of the embedded one.
import { startControlPlane } from "../../src/apiserver/server.ts";
import { createLogger } from "../../src/process/log.ts";

export interface ContractTarget {
  readonly baseUrl: string;
  /** Only then may a case rely on what a running cluster hides: an empty history, the server's own limits. */
  readonly embedded: boolean;
  close(): Promise<void>;
}

export async function startContractTarget(): Promise<ContractTarget> {
  const server = process.env["TIDEMARK_CONTRACT_SERVER"];
  if (server !== undefined) return { baseUrl: server.replace(/\/$/, ""), embedded: false, close: async () => {} };
  const controlPlane = await startControlPlane({ port: 0, log: createLogger("control-plane", "error") });
  return { baseUrl: controlPlane.url, embedded: true, close: () => controlPlane.close() };
}
