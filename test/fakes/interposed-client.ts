// A client of the API server that lets somebody else act right before a chosen call: what happens between two steps of ours happens
// there every time, instead of once in a thousand runs.

import type { KubeObject, Resource } from "../../src/contracts/kubernetes/object.ts";
import type { KubeClient } from "../../src/platform/kube/client/client.ts";

export interface InterposedClient {
  readonly client: KubeClient;
  /** What the calls were, in order: "list volumeattachments". */
  readonly calls: string[];
}

/** `act` runs before each of the first `times` calls for which `isChosen` says so, and before no other. */
export function interposed(
  real: KubeClient,
  isChosen: (call: string, before: readonly string[]) => boolean,
  act: () => Promise<unknown>,
  times = 1,
): InterposedClient {
  const calls: string[] = [];
  let acted = 0;
  const note = async (verb: string, { plural }: Pick<Resource<KubeObject>, "plural">): Promise<void> => {
    const call = `${verb} ${plural}`;
    if (acted < times && isChosen(call, calls)) {
      acted += 1;
      await act();
    }
    calls.push(call);
  };
  const client: KubeClient = {
    get: async (resource, name) => {
      await note("get", resource);
      return real.get(resource, name);
    },
    list: async (resource, options, keep) => {
      await note("list", resource);
      return real.list(resource, options, keep);
    },
    watch: (resource, options) => real.watch(resource, options),
    create: async (point, resource, object) => {
      await note("create", resource);
      return real.create(point, resource, object);
    },
    update: async (point, resource, object, subresource) => {
      await note("update", resource);
      return real.update(point, resource, object, subresource);
    },
    apply: async (point, resource, configuration, options) => {
      await note("apply", resource);
      return real.apply(point, resource, configuration, options);
    },
    mergePatch: async (point, resource, name, patch, subresource) => {
      await note("patch", resource);
      return real.mergePatch(point, resource, name, patch, subresource);
    },
    delete: async (point, resource, name, options) => {
      await note("delete", resource);
      return real.delete(point, resource, name, options);
    },
  };
  return { client, calls };
}
