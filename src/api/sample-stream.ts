// The names by which agents and policy-engines know each other on the stream of samples. They name roles, not places, so that no
// namespace, prefix or cluster domain stands in a certificate.

/** What the engines' certificate names, and what agents ask for, whatever address they call. */
export const ENGINE_CERTIFICATE_NAME = "policy-engine.tidemark.dev";
export const AGENT_CERTIFICATE_NAME = "agent.tidemark.dev";

/** For whom an agent's service account token is. */
export const SAMPLES_AUDIENCE = "tidemark-policy-engine";

/** Secrets in our own namespace. No pod mounts the first two; agents mount the third. */
export const CERTIFICATE_SECRETS = {
  authority: "tidemark-policy-engine-ca",
  engine: "tidemark-policy-engine-tls",
  agent: "tidemark-agent-tls",
} as const;
