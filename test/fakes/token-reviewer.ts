// What an API server answers to a TokenReview, by the token's text: a stand-in for our own narrow port (create). The real one is
// asked in test/contract/token-review.test.ts.

import type { KubeObject } from "../../src/contracts/kubernetes/object.ts";
import type { TokenReview } from "../../src/contracts/kubernetes/resources.ts";
import type { KubeClient } from "../../src/platform/kube/client/client.ts";
import { KubeError } from "../../src/platform/kube/kube-error.ts";

export const AGENT_USERNAME = "system:serviceaccount:tidemark-system:tidemark-agent";

export interface TokenClaims {
  readonly nodeName: string | undefined;
  readonly username?: string;
  readonly audiences?: readonly string[];
  readonly expiresAtMs: number;
  /** Makes tokens with the same claims differ. */
  readonly id?: number;
}

/** Shaped like a service account token; its claims are what the reviewer answers. */
export function agentToken(claims: TokenClaims): string {
  const body = Buffer.from(JSON.stringify({ exp: Math.floor(claims.expiresAtMs / 1000), claims })).toString(
    "base64url",
  );
  return `e30.${body}.c2lnbmF0dXJl`;
}

export interface TokenReviewer extends Pick<KubeClient, "create"> {
  /** Questions that came, answered or not. */
  asked(): number;
  /** From here on it cannot be reached, or it can again. */
  down(isDown: boolean): void;
  /** From here on it refuses this token. */
  revoke(token: string): void;
}

export function createTokenReviewer(): TokenReviewer {
  let asked = 0;
  let isDown = false;
  const revoked = new Set<string>();
  const answer = async ({ spec }: TokenReview): Promise<TokenReview["status"]> => {
    asked += 1;
    await new Promise((resolve) => setImmediate(resolve));
    if (isDown) throw new KubeError("Unreachable", 0, "the API server is down");
    if (revoked.has(spec.token)) return { authenticated: false, error: "the token has been revoked" };
    const { claims } = JSON.parse(Buffer.from(spec.token.split(".")[1] ?? "", "base64url").toString()) as {
      claims: TokenClaims;
    };
    const audiences = (claims.audiences ?? ["tidemark-policy-engine"]).filter((each) => spec.audiences?.includes(each));
    if (audiences.length === 0) return { authenticated: false, error: "the token is for another audience" };
    const extra: Record<string, string[]> =
      claims.nodeName === undefined ? {} : { "authentication.kubernetes.io/node-name": [claims.nodeName] };
    return { authenticated: true, audiences, user: { username: claims.username ?? AGENT_USERNAME, extra } };
  };
  return {
    create: async <T extends KubeObject>(_point: string, _resource: unknown, object: T): Promise<T> => ({
      ...object,
      status: await answer(object as KubeObject as TokenReview),
    }),
    asked: () => asked,
    down: (state) => {
      isDown = state;
    },
    revoke: (token) => void revoked.add(token),
  };
}
