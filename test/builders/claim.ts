// PersistentVolumeClaims for tests.
import type { PersistentVolumeClaim } from "../../src/contracts/kubernetes/resources.ts";

export interface ClaimFields {
  readonly name: string;
  readonly namespace?: string;
  readonly request?: string;
  readonly storageClassName?: string;
  readonly annotations?: Record<string, string>;
  readonly spec?: Partial<PersistentVolumeClaim["spec"]>;
}

/** 10Gi of the loop class, as a user would commit it. */
export function buildClaim(fields: ClaimFields): PersistentVolumeClaim {
  const { name, namespace = "default", request = "10Gi", storageClassName = "tidemark-loop", annotations } = fields;
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name, namespace, ...(annotations === undefined ? {} : { annotations }) },
    spec: {
      accessModes: ["ReadWriteOnce"],
      storageClassName,
      resources: { requests: { storage: request } },
      ...fields.spec,
    },
  };
}
