// Changes to a layout that exists: read, decide, write under that very version, and decide again when somebody was faster.
// The agent's status writes move the version too, so conflicts are ordinary; what to write is the caller's decision.
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../api/filesystem-layout.ts";
import { FIELD_MANAGERS } from "../../api/names.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { onLatest } from "../../kube/client/on-latest.ts";
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

export function createLayoutWriter(client: KubeClient): LayoutWriter {
  return {
    update: (point, layout, change) =>
      onLatest<FilesystemLayout | undefined, FilesystemLayout | undefined>(
        layout,
        () => client.get(FILESYSTEM_LAYOUTS, { name: layout.metadata.name }),
        async (current) => {
          const fields = current && (await change(current));
          if (current === undefined || fields === undefined) return current;
          return client.apply(point, FILESYSTEM_LAYOUTS, changedLayout(current, fields), {
            fieldManager: FIELD_MANAGERS.operator,
            force: true,
          });
        },
      ),
  };
}
