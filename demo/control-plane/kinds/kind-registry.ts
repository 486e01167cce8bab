// Which kinds are served right now. Built-in ones always, custom ones while their CustomResourceDefinition stands.
import { BUILT_IN_KINDS } from "./built-in-kinds.ts";
import type { ResourceKind } from "./resource-kind.ts";

export class KindRegistry {
  readonly #custom = new Map<string, ResourceKind>();

  all(): ResourceKind[] {
    return [...BUILT_IN_KINDS, ...this.#custom.values()];
  }

  /** The kind behind a path's group, version and plural; undefined when it is not served. */
  find(group: string, version: string, plural: string): ResourceKind | undefined {
    return this.all().find((kind) => kind.group === group && kind.version === version && kind.plural === plural);
  }

  /** Serves a kind under the name of its CustomResourceDefinition, in place of what that name served before. */
  add(definitionName: string, kind: ResourceKind): void {
    this.#custom.set(definitionName, kind);
  }

  remove(definitionName: string): void {
    this.#custom.delete(definitionName);
  }

  custom(definitionName: string): ResourceKind | undefined {
    return this.#custom.get(definitionName);
  }
}
