// Keeps the served kinds in step with the stored CustomResourceDefinitions: a kind is served in the same moment in which
// its definition is stored.

import { equalJson } from "../store/json.ts";
import type { ObjectStore } from "../store/store.ts";
import { builtInKind } from "./built-in-kinds.ts";
import { customKind } from "./custom-kind.ts";
import type { KindRegistry } from "./kind-registry.ts";

/** Follows the definitions from now on. Stored definitions have passed customKind already. */
export function serveDefinitions(store: ObjectStore, registry: KindRegistry): void {
  store.subscribe(
    builtInKind("CustomResourceDefinition"),
    ({ type, object, previous }) => {
      const { name } = object.metadata;
      if (type === "DELETED") {
        const gone = registry.custom(name);
        registry.remove(name);
        if (gone !== undefined) store.forget(gone);
        return;
      }
      if (previous !== undefined && equalJson(previous["spec"], object["spec"])) return;
      const { kind } = customKind(object);
      if (kind !== undefined) registry.add(name, kind);
    },
    () => {},
  );
}
