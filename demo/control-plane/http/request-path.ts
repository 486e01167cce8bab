// What a request path of the Kubernetes API names. Only the form is read here; whether it is served is the router's.

export interface ResourcePath {
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  /** Empty: cluster-scoped, or all namespaces. */
  readonly namespace: string;
  /** Empty: the collection. */
  readonly name: string;
  /** Empty: the object itself. */
  readonly subresource: string;
}

/** The resource behind /api/v1/... or /apis/GROUP/VERSION/...; undefined when the path has no such form. */
export function parseResourcePath(pathname: string): ResourcePath | undefined {
  const parts = pathname
    .split("/")
    .filter((part) => part !== "")
    .map(decodePart);
  if (parts.some((part) => part === undefined)) return undefined;
  const [root, ...rest] = parts as string[];
  if (root === "api" && rest.length >= 2) return resourceOf("", rest[0] ?? "", rest.slice(1));
  if (root === "apis" && rest.length >= 3) return resourceOf(rest[0] ?? "", rest[1] ?? "", rest.slice(2));
  return undefined;
}

function decodePart(part: string): string | undefined {
  try {
    return decodeURIComponent(part);
  } catch {
    return undefined;
  }
}

// "namespaces/NAME" and "namespaces/NAME/status" are the Namespace itself; anything longer is inside of it.
function resourceOf(group: string, version: string, parts: readonly string[]): ResourcePath | undefined {
  const [first = "", second = "", third = ""] = parts;
  const inNamespace = first === "namespaces" && parts.length >= 3 && !(parts.length === 3 && third === "status");
  const [plural = "", name = "", subresource = "", ...more] = inNamespace ? parts.slice(2) : parts;
  if (more.length > 0) return undefined;
  return { group, version, plural, namespace: inNamespace ? second : "", name, subresource };
}
