// The API server that a test uses: the embedded control plane, or a kube-apiserver of its own where TIDEMARK_REAL_API is "true". Both
// are empty at first, open to this machine, speak plain HTTP on loopback, and collect garbage; nothing else acts on their objects but what the test starts.
import {
  type ControlPlane,
  type ControlPlaneOptions,
  startControlPlane,
} from "../../demo/control-plane/http/server.ts";

export type ApiUnderTest = ControlPlane;

/** Throws when the port is taken. */
export async function startApiUnderTest(options: Omit<ControlPlaneOptions, "access">): Promise<ApiUnderTest> {
  if (!isRealApi()) return startControlPlane({ ...options, access: "open" });
  // Loaded where it is needed: the fast tests pay for no module of it.
  const { startKubeApiServer } = await import("../real-api/kube-apiserver.ts");
  return startKubeApiServer(options.port);
}

export function isRealApi(): boolean {
  return process.env["TIDEMARK_REAL_API"] === "true";
}
