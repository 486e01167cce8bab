// The layouts of our own volumes, apart from those of ordinary claims: nothing that stages, resizes or deletes ever sees these.
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import type { ReadableStore } from "../../kube/cache/store.ts";

export function isClaimLayout({ spec }: FilesystemLayout): boolean {
  return spec.backend === "claim";
}

export function ownLayouts(store: ReadableStore<FilesystemLayout>): ReadableStore<FilesystemLayout> {
  const isOwn = (layout: FilesystemLayout): boolean => !isClaimLayout(layout);
  return {
    get: (key) => {
      const layout = store.get(key);
      return layout !== undefined && isOwn(layout) ? layout : undefined;
    },
    list: () => store.list().filter(isOwn),
    byIndex: (name, value) => store.byIndex(name, value).filter(isOwn),
    get size() {
      return store.list().filter(isOwn).length;
    },
  };
}
