// Changes to a layout that exists: read, decide, write under that very version, and decide again when somebody was faster.
// The agent's status writes move the version too, so conflicts are ordinary; what to write is the caller's decision.
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../api/filesystem-layout.ts";
import { FIELD_MANAGERS } from "../../api/names.ts";
import { backOffMs } from "../../kube/back-off.ts";
import type { KubeClient } from "../../kube/client.ts";
import { isKubeError } from "../../kube/kube-error.ts";
import { pause } from "../../kube/pause.ts";
import type { EffectPoint } from "../../process/effects.ts";
import { changedLayout, type LayoutFields } from "./layout-fields.ts";

/** Decides on the layout as it is; undefined: nothing to write. It writes nothing itself. */
export type LayoutChange = (layout: FilesystemLayout) => LayoutFields | undefined | Promise<LayoutFields | undefined>;

export interface LayoutWriter {
  /**
   * Applies a change to `layout`, which may come from a cache. Returns the layout as it is then, or undefined when it is
   * gone. Idempotent as far as `change` is. Throws KubeError.
   */
  update(point: EffectPoint, layout: FilesystemLayout, change: LayoutChange): Promise<FilesystemLayout | undefined>;
}

const WRITE_ATTEMPTS_LIMIT = 8;
/** A burst of somebody else's writes is let pass; all waits together are under a second. */
const CONFLICT_BACK_OFF = { baseMs: 2, capMs: 200 };

export function createLayoutWriter(client: KubeClient): LayoutWriter {
  return {
    update: async (point, layout, change) => {
      let current: FilesystemLayout | undefined = layout;
      for (let attempt = 1; current !== undefined; attempt += 1) {
        const fields = await change(current);
        if (fields === undefined) return current;
        try {
          return await client.apply(point, FILESYSTEM_LAYOUTS, changedLayout(current, fields), {
            fieldManager: FIELD_MANAGERS.operator,
            force: true,
          });
        } catch (error) {
          if (!isKubeError(error, "Conflict") || attempt >= WRITE_ATTEMPTS_LIMIT) throw error;
          await pause(backOffMs(attempt, CONFLICT_BACK_OFF, Math.random()), new AbortController().signal);
          current = await client.get(FILESYSTEM_LAYOUTS, { name: layout.metadata.name });
        }
      }
      return undefined;
    },
  };
}
