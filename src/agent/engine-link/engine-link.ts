// How the agent's streams reach an engine: in the clear on this machine, or by mutual TLS with its service account token. What
// is shown to the engine is read anew for each stream, since kubelet renews it under us.
import { readFile } from "node:fs/promises";
import { ChannelCredentials, type ChannelOptions, Metadata } from "@grpc/grpc-js";
import { ENGINE_CERTIFICATE_NAME } from "../../api/sample-stream.ts";
import { readClientCredentials } from "../../process/certificates/client-credentials.ts";

export interface EngineLink {
  readonly credentials: ChannelCredentials;
  readonly options: ChannelOptions;
  readonly metadata: Metadata;
}

/** Rejects when what is to be shown is not there (yet). */
export type ReadEngineLink = () => Promise<EngineLink>;

/** For unix sockets and loopback. */
export const readPlainLink: ReadEngineLink = async () => ({
  credentials: ChannelCredentials.createInsecure(),
  options: {},
  metadata: new Metadata(),
});

/** `tlsDirectory` has ca.crt, tls.crt and tls.key. */
export function securedLink(tlsDirectory: string, tokenFile: string): ReadEngineLink {
  return async () => {
    const [credentials, token] = await Promise.all([readClientCredentials(tlsDirectory), readFile(tokenFile, "utf8")]);
    const metadata = new Metadata();
    metadata.set("authorization", `Bearer ${token.trim()}`);
    // Engines are called by address; what they must prove is their role.
    return { credentials, options: { "grpc.ssl_target_name_override": ENGINE_CERTIFICATE_NAME }, metadata };
  };
}
