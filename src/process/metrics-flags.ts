// The flags of processes that can ask who reads their metrics, which are those with a client of the API server.
import { isAbsolute } from "node:path";

export interface MetricsAuthentication {
  /** For whom tokens must be; undefined: for the API server. */
  readonly audience: string | undefined;
  /** Where tls.crt and tls.key are; undefined: the process makes a certificate of its own. */
  readonly tlsDirectory: string | undefined;
}

/** For readFlags. */
export const METRICS_FLAGS = {
  "metrics-authentication": { type: "boolean", default: false },
  "metrics-audience": { type: "string" },
  "metrics-tls-directory": { type: "string" },
} as const;

interface MetricsFlagValues {
  readonly "metrics-authentication": boolean;
  readonly "metrics-audience"?: string | undefined;
  readonly "metrics-tls-directory"?: string | undefined;
}

/** Undefined: metrics are for all who reach the port, in the clear. */
export function readMetricsAuthentication(values: MetricsFlagValues): MetricsAuthentication | undefined {
  const { "metrics-audience": audience, "metrics-tls-directory": tlsDirectory } = values;
  if (!values["metrics-authentication"]) {
    for (const flag of ["metrics-audience", "metrics-tls-directory"] as const)
      if (values[flag] !== undefined) throw new Error(`--${flag} is of no use without --metrics-authentication`);
    return undefined;
  }
  if (audience === "") throw new Error("--metrics-audience is empty; without it tokens are those for the API server");
  if (tlsDirectory !== undefined && !isAbsolute(tlsDirectory))
    throw new Error(`--metrics-tls-directory ${tlsDirectory} is no absolute path`);
  return { audience, tlsDirectory };
}
