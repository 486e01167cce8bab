// Where agents reach this engine, and what they must show there: a unix socket or loopback in the clear, or the network with
// mutual TLS and a token. It keeps the certificates while this replica leads; it does not look into the stream.
import { AGENT_CERTIFICATE_NAME, CERTIFICATE_SECRETS, ENGINE_CERTIFICATE_NAME } from "../../api/sample-stream.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import type { EventRecorder } from "../../kube/events/events.ts";
import { formatAddress } from "../../process/address.ts";
import { createCertificateKeeper } from "../../process/certificates/certificate-keeper.ts";
import { CERTIFICATE_TIMES } from "../../process/certificates/certificate-times.ts";
import { createMutualTls } from "../../process/certificates/mutual-tls.ts";
import { showSecret } from "../../process/certificates/shown-pair.ts";
import { type GrpcService, serveOnAddress, serveOnSocket, serveOverTls } from "../../process/grpc.ts";
import type { Logger } from "../../process/log.ts";
import type { PolicyEngineConfig } from "../config.ts";
import { type Admit, admitAnyone, createAgentAdmission } from "./agent-admission.ts";

export interface SampleListenerOptions {
  readonly config: Pick<PolicyEngineConfig, "samplesSocket" | "samplesAddress" | "samplesTls" | "leaseNamespace">;
  readonly client: KubeClient;
  readonly events: EventRecorder;
  readonly leadership: { isLeader(): boolean };
  readonly nowMs: () => number;
  readonly log: Logger;
}

export interface SampleListener {
  /** Resolves with where it listens. With TLS, handshakes fail until the leader has made the certificates. */
  serve(service: GrpcService): Promise<string>;
  /** This replica leads now. */
  leading(): void;
  close(): Promise<void>;
}

/** Who may speak there. */
export function admissionFor(
  { samplesTls, leaseNamespace, agentServiceAccount }: PolicyEngineConfig,
  client: Pick<KubeClient, "create">,
  nowMs: () => number,
): Admit {
  if (samplesTls === "Off") return admitAnyone;
  const agentUsername = `system:serviceaccount:${leaseNamespace}:${agentServiceAccount}`;
  return createAgentAdmission({ client, agentUsername, nowMs });
}

export function createSampleListener(options: SampleListenerOptions): SampleListener {
  const { samplesSocket, samplesAddress, samplesTls } = options.config;
  const certificates = samplesTls === "SelfMade" ? createServerCertificates(options) : undefined;
  let server: { close(): Promise<void> } | undefined;
  return {
    serve: async (service) => {
      if (samplesAddress === undefined) {
        server = await serveOnSocket(samplesSocket, [service]);
        return `unix://${samplesSocket}`;
      }
      const serving =
        certificates === undefined
          ? await serveOnAddress(samplesAddress, [service])
          : await serveOverTls(samplesAddress, certificates.tls, [service]);
      server = serving;
      certificates?.keeper.start();
      return formatAddress({ ...samplesAddress, port: serving.port });
    },
    leading: () => certificates?.keeper.wake(),
    close: async () => {
      await certificates?.keeper.stop();
      await server?.close();
    },
  };
}

function createServerCertificates({ config, client, events, leadership, nowMs, log }: SampleListenerOptions) {
  const tls = createMutualTls(log);
  const keeper = createCertificateKeeper({
    client,
    events,
    namespace: config.leaseNamespace,
    authoritySecretName: CERTIFICATE_SECRETS.authority,
    leaves: [
      { secretName: CERTIFICATE_SECRETS.engine, commonName: ENGINE_CERTIFICATE_NAME, usage: "server" },
      { secretName: CERTIFICATE_SECRETS.agent, commonName: AGENT_CERTIFICATE_NAME, usage: "client" },
    ],
    times: CERTIFICATE_TIMES,
    isLeader: () => leadership.isLeader(),
    changed: (secret) => {
      if (secret.metadata.name === CERTIFICATE_SECRETS.engine) showSecret(secret, tls.replace, log);
    },
    nowMs,
    log,
  });
  return { tls, keeper };
}
