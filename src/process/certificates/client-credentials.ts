// A gRPC client's side of mutual TLS, from the files of a mounted Secret. They are read anew for each connection, so that what
// kubelet changes there holds for the next one, without a watch on files or a restart.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { createSecureContext } from "node:tls";
import { ChannelCredentials } from "@grpc/grpc-js";
import { PAIR_KEYS } from "./pair-secret.ts";

/** Rejects when a file is not there, or key and certificate do not belong together (kubelet is just changing them). */
export async function readClientCredentials(directory: string): Promise<ChannelCredentials> {
  const [ca, cert, key] = await Promise.all(
    [PAIR_KEYS.bundlePem, PAIR_KEYS.certificatePem, PAIR_KEYS.keyPem].map((file) => readFile(join(directory, file))),
  );
  return ChannelCredentials.createFromSecureContext(createSecureContext({ ca, cert, key, minVersion: "TLSv1.3" }));
}
