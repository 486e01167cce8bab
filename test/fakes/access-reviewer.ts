// What an API server answers to a TokenReview and to the SubjectAccessReview after it: a stand-in for our own narrow port (create). A token is
// "ACCOUNT/ANYTHING"; an account "bad" has none. The real one is asked in test/real/metrics-authentication.test.ts.

import type { KubeObject } from "../../src/contracts/kubernetes/object.ts";
import type { SubjectAccessReview, TokenReview } from "../../src/contracts/kubernetes/resources.ts";
import type { KubeClient } from "../../src/platform/kube/client/client.ts";
import { KubeError } from "../../src/platform/kube/kube-error.ts";

export interface AccessReviewer extends Pick<KubeClient, "create"> {
  /** Questions of both kinds that came, answered or not. */
  asked(): number;
  /** The most questions that waited for an answer at one time. */
  most(): number;
  /** "answers", cannot be reached, or leaves questions without an answer until it answers again. */
  become(state: "answering" | "away" | "silent"): void;
  allow(account: string): void;
  forbid(account: string): void;
}

export function createAccessReviewer(): AccessReviewer {
  let [asked, open, most] = [0, 0, 0];
  let state: "answering" | "away" | "silent" = "answering";
  let waiting: (() => void)[] = [];
  const allowed = new Set<string>();
  const answer = (object: TokenReview | SubjectAccessReview): object => {
    if (object.kind === "SubjectAccessReview") {
      const { spec } = object as SubjectAccessReview;
      return { allowed: allowed.has(spec.user ?? "") && spec.groups?.includes("everybody") === true };
    }
    const { token, audiences } = (object as TokenReview).spec;
    const [username = ""] = token.split("/");
    if (username === "bad") return { authenticated: false, error: "invalid bearer token" };
    // An API server that knows no audiences leaves them out.
    const known = audiences?.filter((audience) => audience !== "unknown");
    return { authenticated: true, audiences: known, user: { username, groups: ["everybody"] } };
  };
  return {
    create: async <T extends KubeObject>(_point: string, _resource: unknown, object: T): Promise<T> => {
      asked += 1;
      open += 1;
      most = Math.max(most, open);
      try {
        await new Promise((resolve) => setImmediate(resolve));
        if (state === "silent") await new Promise<void>((resolve) => waiting.push(resolve));
        if (state === "away") throw new KubeError("Unreachable", 0, "the API server is away");
        return { ...object, status: answer(object as TokenReview) };
      } finally {
        open -= 1;
      }
    },
    asked: () => asked,
    most: () => most,
    become: (next) => {
      state = next;
      const released = waiting;
      waiting = [];
      for (const release of released) release();
    },
    allow: (account) => void allowed.add(account),
    forbid: (account) => void allowed.delete(account),
  };
}
