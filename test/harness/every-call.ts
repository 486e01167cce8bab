// Every call that an API server has, as it says itself: to be made in somebody's name, and counted by whether it is refused.

export interface Asked {
  /** "verb resource". */
  readonly name: string;
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Of an object that there is not: what is allowed is answered by 404 at most, or since the body is empty. */
  readonly path: string;
  readonly contentType: string;
}

interface ResourceList {
  readonly resources: readonly {
    readonly name: string;
    readonly namespaced: boolean;
    readonly verbs: readonly string[];
  }[];
}

const NAMESPACE = "shop";
const NAME = "no-such-object";
const METHODS = {
  get: "GET",
  list: "GET",
  create: "POST",
  update: "PUT",
  patch: "PATCH",
  delete: "DELETE",
  deletecollection: "DELETE",
} as const;
type Verb = keyof typeof METHODS;
const VERBS = Object.keys(METHODS) as Verb[];
/** Of a whole kind; what is named may be a subresource of an object. */
const OF_COLLECTIONS: readonly Verb[] = ["list", "create", "deletecollection"];

/** Lists are of all namespaces, the other calls of one. */
export async function everyCall(server: string): Promise<Asked[]> {
  const read = async <T>(path: string): Promise<T> => (await (await fetch(`${server}${path}`)).json()) as T;
  const { groups } = await read<{ groups: { preferredVersion: { groupVersion: string } }[] }>("/apis");
  const roots = ["/api/v1", ...groups.map(({ preferredVersion }) => `/apis/${preferredVersion.groupVersion}`)];
  const lists = await Promise.all(roots.map(async (root) => ({ root, list: await read<ResourceList>(root) })));
  return lists.flatMap(({ root, list }) =>
    list.resources.flatMap(({ name, namespaced, verbs }) =>
      VERBS.filter((verb) => verbs.includes(verb)).map((verb) => ({
        name: `${verb} ${name}`,
        method: METHODS[verb],
        path: pathOf(root, name, namespaced, verb),
        contentType: verb === "patch" ? "application/merge-patch+json" : "application/json",
      })),
    ),
  );
}

function pathOf(root: string, resource: string, namespaced: boolean, verb: Verb): string {
  const [plural, subresource] = resource.split("/");
  const within = namespaced && verb !== "list" ? `${root}/namespaces/${NAMESPACE}` : root;
  const object = subresource === undefined && OF_COLLECTIONS.includes(verb) ? "" : `/${NAME}`;
  const part = subresource === undefined ? "" : `/${subresource}`;
  // What is allowed is carried out on nothing.
  return `${within}/${plural}${object}${part}${METHODS[verb] === "GET" ? "" : "?dryRun=All"}`;
}
