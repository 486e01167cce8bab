// A bearer token, and the question about it to the API server. A token is known by its hash and never stored. The number of concurrent
// questions is limited, which bounds what senders of tokens cost the API server.
import { createHash } from "node:crypto";
import type { TokenReview } from "../../../contracts/kubernetes/resources.ts";

const TOKEN_LIMIT_CHARACTERS = 16_384;

/** Of an Authorization header. Undefined: it has none, or a longer one than any API server would issue. */
export function bearerToken(authorization: string | undefined): string | undefined {
  const token = /^Bearer (\S+)$/i.exec(authorization ?? "")?.[1];
  return token !== undefined && token.length <= TOKEN_LIMIT_CHARACTERS ? token : undefined;
}

export function hashOfToken(token: string): string {
  return createHash("sha256").update(token).digest("base64");
}

/** Without audiences: whether the token is for the API server itself. */
export function tokenReview(token: string, audiences: readonly string[]): TokenReview {
  return {
    apiVersion: "authentication.k8s.io/v1",
    kind: "TokenReview",
    metadata: { name: "" },
    spec: audiences.length === 0 ? { token } : { token, audiences: [...audiences] },
  };
}

export interface Questions<A> {
  /**
   * The answer to the question that is under way under this key, or to this one. Undefined: there are too many others, or `mayAsk` says no, and
   * it is not asked.
   */
  ask(key: string, question: () => Promise<A>, mayAsk?: () => boolean): Promise<A> | undefined;
}

export function createQuestions<A>(limit: number): Questions<A> {
  const underWay = new Map<string, Promise<A>>();
  return {
    ask: (key, question, mayAsk = () => true) => {
      const asked = underWay.get(key);
      if (asked !== undefined) return asked;
      if (underWay.size >= limit || !mayAsk()) return undefined;
      const asking = question().finally(() => underWay.delete(key));
      underWay.set(key, asking);
      return asking;
    },
  };
}
