// The cluster's certificate authority and what it signs: one client certificate for each component, named as Kubernetes' built-in
// roles expect, and serving certificates for the API server and kubelets. By openssl; valid for a few days, as the cluster is.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { CONTROL_PLANE_ADDRESS, KUBERNETES_SERVICE_ADDRESS, nodeAddress } from "./addresses.ts";
import type { ClusterPlaces } from "./places.ts";
import { runProgram } from "./run-program.ts";

const VALID_DAYS = "30";
const NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
const AUTHORITY = "ca";
const ADMINISTRATORS = "system:masters";

interface Certificate {
  /** Of its files, NAME.crt and NAME.key. */
  readonly name: string;
  readonly user: string;
  readonly group?: string;
  /** A serving certificate's names; without them it is a client's. */
  readonly serves?: readonly string[];
}

const API_SERVER_NAMES = [
  "DNS:localhost",
  "DNS:kubernetes",
  "DNS:kubernetes.default",
  "DNS:kubernetes.default.svc",
  "DNS:kubernetes.default.svc.cluster.local",
  "IP:127.0.0.1",
  `IP:${CONTROL_PLANE_ADDRESS}`,
  `IP:${KUBERNETES_SERVICE_ADDRESS}`,
];

const CONTROL_PLANE_CERTIFICATES: readonly Certificate[] = [
  { name: "kube-apiserver", user: "kube-apiserver", serves: API_SERVER_NAMES },
  { name: "kubelet-client", user: "kube-apiserver-kubelet-client", group: ADMINISTRATORS },
  { name: "admin", user: "admin", group: ADMINISTRATORS },
  { name: "kube-controller-manager", user: "system:kube-controller-manager" },
  { name: "kube-scheduler", user: "system:kube-scheduler" },
  { name: "kube-proxy", user: "system:kube-proxy" },
];

function nodeCertificates(node: string, index: number): Certificate[] {
  const identity = { user: `system:node:${node}`, group: "system:nodes" };
  return [
    { name: node, ...identity },
    { name: `${node}-serving`, ...identity, serves: [`DNS:${node}`, `IP:${nodeAddress(index)}`] },
  ];
}

export async function makeCertificates(places: ClusterPlaces, nodes: readonly string[]): Promise<void> {
  const openssl = (...args: string[]): Promise<string> =>
    runProgram("openssl", args, { directory: places.certificates });
  const usage = ["-addext", "keyUsage=critical,keyCertSign,cRLSign,digitalSignature"];
  await openssl(
    "req",
    "-x509",
    ...NEW_KEY,
    "-subj",
    "/CN=tidemark-test",
    "-days",
    VALID_DAYS,
    ...usage,
    ...files(AUTHORITY),
  );
  await openssl(
    "genpkey",
    "-algorithm",
    "EC",
    "-pkeyopt",
    "ec_paramgen_curve:prime256v1",
    "-out",
    "service-accounts.key",
  );
  await openssl("pkey", "-in", "service-accounts.key", "-pubout", "-out", "service-accounts.pub");
  for (const certificate of [...CONTROL_PLANE_CERTIFICATES, ...nodes.flatMap(nodeCertificates)])
    await sign(places, certificate, openssl);
}

async function sign(
  { certificates }: ClusterPlaces,
  { name, user, group, serves }: Certificate,
  openssl: (...args: string[]) => Promise<string>,
): Promise<void> {
  const organisation = group === undefined ? "" : `/O=${group}`;
  const extensions = [
    "basicConstraints=CA:FALSE",
    "keyUsage=critical,digitalSignature",
    `extendedKeyUsage=${serves === undefined ? "clientAuth" : "serverAuth"}`,
    ...(serves === undefined ? [] : [`subjectAltName=${serves.join(",")}`]),
  ];
  writeFileSync(join(certificates, `${name}.extensions`), `${extensions.join("\n")}\n`);
  await openssl(
    "req",
    "-new",
    ...NEW_KEY,
    "-subj",
    `${organisation}/CN=${user}`,
    "-keyout",
    `${name}.key`,
    "-out",
    `${name}.request`,
  );
  const authority = ["-CA", `${AUTHORITY}.crt`, "-CAkey", `${AUTHORITY}.key`, "-CAcreateserial", "-days", VALID_DAYS];
  await openssl(
    "x509",
    "-req",
    "-in",
    `${name}.request`,
    ...authority,
    "-extfile",
    `${name}.extensions`,
    "-out",
    `${name}.crt`,
  );
}

function files(name: string): string[] {
  return ["-keyout", `${name}.key`, "-out", `${name}.crt`];
}

/** Absolute paths of a certificate's files. */
export function certificateFiles({ certificates }: ClusterPlaces, name: string): { cert: string; key: string } {
  return { cert: join(certificates, `${name}.crt`), key: join(certificates, `${name}.key`) };
}

export function authorityFile({ certificates }: ClusterPlaces): string {
  return join(certificates, `${AUTHORITY}.crt`);
}
