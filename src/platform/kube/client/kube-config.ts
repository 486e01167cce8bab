// Where the API server is, by flags or by the pod's environment, and how we authenticate to it. client-node is loaded for kubeconfig files
// only (exec plugins, OIDC), and lazily: it costs half a second and 70 MB.
import { readFile } from "node:fs/promises";
import { isIPv6 } from "node:net";
import { join } from "node:path";

/** What TLS needs, as Node's own options have it; all PEM. */
export interface ClusterTls {
  readonly ca?: string | undefined;
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  readonly serverName?: string | undefined;
  /** True: the server's certificate is not checked. */
  readonly insecure?: boolean;
}

export interface ClusterCredentials {
  readonly headers: Readonly<Record<string, string>>;
  readonly tls: ClusterTls;
}

export interface ClusterConnection {
  /** "https://host:port", or "http://127.0.0.1:port" for one without authentication; a path prefix stays. */
  readonly server: string;
  /** An HTTP proxy that tunnels to the server. */
  readonly proxy?: string;
  /** Read before every request, so it must be cheap; absent: none are sent. Rejects when they cannot be had. */
  credentials?(): Promise<ClusterCredentials>;
}

/** What a process' configuration says about the cluster; the first that is set wins, in this order. */
export interface ConnectionSettings {
  /** An address; without authentication, e.g. "http://127.0.0.1:8001", where no credentials are given. */
  readonly server: string | undefined;
  /** For `server`: a directory with ca.crt and token, as kubelet mounts a service account's. */
  readonly credentials: string | undefined;
  /** A kubeconfig file. */
  readonly kubeconfig: string | undefined;
  /** KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT, as kubelet sets them in a pod. */
  readonly serviceHost: string | undefined;
  readonly servicePort: string | undefined;
}

const SERVICE_ACCOUNT_DIRECTORY = "/var/run/secrets/kubernetes.io/serviceaccount";
/** Tokens and certificates rotate under us: they are read again after this long. */
const CREDENTIALS_AGE_LIMIT_MS = 10_000;

/** Throws when the settings name no cluster, or the kubeconfig cannot be used. */
export async function connectionOf(settings: ConnectionSettings): Promise<ClusterConnection> {
  if (settings.server !== undefined) return givenConnection(settings.server, settings.credentials);
  if (settings.credentials !== undefined) throw new Error("--credentials is for --server: give both");
  if (settings.kubeconfig !== undefined) return kubeconfigConnection(settings.kubeconfig);
  if (settings.serviceHost !== undefined && settings.servicePort !== undefined)
    return inClusterConnection(settings.serviceHost, settings.servicePort);
  throw new Error("no cluster is configured: give --server or --kubeconfig, or run in a pod");
}

function givenConnection(server: string, directory: string | undefined): ClusterConnection {
  if (directory === undefined) return { server };
  if (!server.startsWith("https:")) throw new Error(`--server ${server}: a token is sent to an https address only`);
  return { server, credentials: credentialsIn(directory) };
}

/** The pod's own service account; the token is read again as kubelet rotates it. */
export function inClusterConnection(
  host: string,
  port: string,
  directory = SERVICE_ACCOUNT_DIRECTORY,
): ClusterConnection {
  return {
    server: `https://${isIPv6(host) ? `[${host}]` : host}:${port}`,
    credentials: credentialsIn(directory),
  };
}

function credentialsIn(directory: string): () => Promise<ClusterCredentials> {
  return cachedFor(CREDENTIALS_AGE_LIMIT_MS, async () => {
    const [ca, token] = await Promise.all(["ca.crt", "token"].map((file) => readFile(join(directory, file), "utf8")));
    return { headers: { authorization: `Bearer ${(token ?? "").trim()}` }, tls: { ca } };
  });
}

/** A kubeconfig's current context, or the one named. A plain http server gets no credentials. Throws when file, context or cluster is missing. */
export async function kubeconfigConnection(file: string, context?: string): Promise<ClusterConnection> {
  const { KubeConfig } = await import("@kubernetes/client-node/dist/config.js");
  const config = new KubeConfig();
  config.loadFromFile(file);
  if (context !== undefined) config.setCurrentContext(context);
  const cluster = config.getCurrentCluster();
  if (cluster === null)
    throw new Error(
      `kubeconfig ${file}: context "${config.getCurrentContext()}" names no cluster; pick one of: ${config
        .getContexts()
        .map(({ name }) => name)
        .join(", ")}`,
    );
  if (cluster.server.startsWith("http:")) return { server: cluster.server };
  const proxy = httpProxy(file, cluster.proxyUrl);
  return {
    server: cluster.server,
    ...(proxy === undefined ? {} : { proxy }),
    credentials: cachedFor(CREDENTIALS_AGE_LIMIT_MS, async () => {
      const options: AuthenticatedOptions = {};
      await config.applyToHTTPSOptions(options);
      return credentialsOf(options);
    }),
  };
}

function httpProxy(file: string, proxy: string | undefined): string | undefined {
  if (proxy === undefined || /^https?:/.test(proxy)) return proxy;
  throw new Error(`kubeconfig ${file}: proxy-url ${proxy} is not supported; use an http or https proxy`);
}

/** What client-node fills in. */
interface AuthenticatedOptions {
  headers?: NodeJS.Dict<unknown>;
  auth?: string;
  ca?: unknown;
  cert?: unknown;
  key?: unknown;
  servername?: string;
  rejectUnauthorized?: boolean;
}

function credentialsOf(options: AuthenticatedOptions): ClusterCredentials {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(options.headers ?? {})) headers[name.toLowerCase()] = String(value);
  if (options.auth !== undefined) headers["authorization"] = `Basic ${Buffer.from(options.auth).toString("base64")}`;
  const tls: ClusterTls = {
    ca: pem(options.ca),
    cert: pem(options.cert),
    key: pem(options.key),
    serverName: options.servername,
    insecure: options.rejectUnauthorized === false,
  };
  return { headers, tls };
}

function pem(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  return Buffer.isBuffer(value) ? value.toString("utf8") : undefined;
}

/** Reuses the result of `read` for a while; callers at the same time share one reading, and a failed one is dropped. */
function cachedFor<T>(ageLimitMs: number, read: () => Promise<T>): () => Promise<T> {
  let kept: { readonly value: Promise<T>; readonly readMs: number } | undefined;
  return () => {
    const nowMs = performance.now();
    if (kept !== undefined && nowMs - kept.readMs < ageLimitMs) return kept.value;
    const value = read();
    kept = { value, readMs: nowMs };
    value.catch(() => {
      if (kept?.value === value) kept = undefined;
    });
    return value;
  };
}

/** For readFlags. */
export const CONNECTION_FLAGS = {
  server: { type: "string" },
  credentials: { type: "string" },
  kubeconfig: { type: "string" },
} as const;

export function readConnectionSettings(
  flags: Partial<Pick<ConnectionSettings, keyof typeof CONNECTION_FLAGS>>,
  environment: NodeJS.ProcessEnv,
): ConnectionSettings {
  return {
    server: flags.server,
    credentials: flags.credentials,
    kubeconfig: flags.kubeconfig,
    serviceHost: environment["KUBERNETES_SERVICE_HOST"],
    servicePort: environment["KUBERNETES_SERVICE_PORT"],
  };
}
