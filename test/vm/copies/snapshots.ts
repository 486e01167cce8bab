// The operator's CSI service as csi-snapshotter calls it: again and again until it is done or refused.
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { credentials, Metadata, type ServiceError, status } from "@grpc/grpc-js";
import {
  ControllerClient,
  type CreateSnapshotResponse,
  type DeleteSnapshotResponse,
  type Snapshot,
} from "../../../src/contracts/gen/csi/v1/csi.ts";
import type { Stack } from "../../harness/stack.ts";
import { waitFor } from "../../harness/wait-for.ts";

export interface Snapshots {
  /** Its id. Rejects with a ServiceError where it is refused. */
  create(sourceVolumeId: string): Promise<Snapshot>;
  remove(snapshotId: string): Promise<void>;
  close(): void;
}

/** With deaths of the agent and of lvmd in between, on a busy machine. */
const ANSWER_LIMIT_MS = 300_000;

/** What csi-snapshotter repeats the call after. */
const PASSING: readonly status[] = [status.ABORTED, status.UNAVAILABLE, status.DEADLINE_EXCEEDED];

export function connectSnapshots({ directory }: Stack): Snapshots {
  const controller = new ControllerClient(`unix://${join(directory, "operator.sock")}`, credentials.createInsecure());
  return {
    create: async (sourceVolumeId) => {
      const request = { sourceVolumeId, name: `snapshot-${randomUUID()}`, secrets: {}, parameters: {} };
      const { snapshot } = await persist(
        () =>
          new Promise<CreateSnapshotResponse>((resolve, reject) => {
            controller.createSnapshot(request, new Metadata(), (error, response) =>
              error === null ? resolve(response) : reject(error),
            );
          }),
      );
      if (snapshot === undefined) throw new Error(`the answer to CreateSnapshot ${request.name} has no snapshot`);
      return snapshot;
    },
    remove: async (snapshotId) => {
      const call = (): Promise<DeleteSnapshotResponse> =>
        new Promise((resolve, reject) => {
          controller.deleteSnapshot({ snapshotId, secrets: {} }, new Metadata(), (error, response) =>
            error === null ? resolve(response) : reject(error),
          );
        });
      await persist(call);
    },
    close: () => controller.close(),
  };
}

async function persist<T>(call: () => Promise<T>): Promise<T> {
  const look = async (): Promise<{ value: T } | { refusal: unknown }> => {
    try {
      return { value: await call() };
    } catch (error) {
      if (PASSING.includes((error as ServiceError).code)) throw error;
      return { refusal: error };
    }
  };
  const ended = await waitFor("the operator's answer", look, { limitMs: ANSWER_LIMIT_MS });
  if ("refusal" in ended) throw ended.refusal;
  return ended.value;
}
