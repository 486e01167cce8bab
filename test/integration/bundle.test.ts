// What only the bundle can get wrong: packages that come as several kinds of module, and are loaded when they are needed.
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { freePort } from "../../demo/show/run/free-port.ts";
import { SECRETS } from "../../src/contracts/kubernetes/resources.ts";
import { CERTIFICATE_SECRETS } from "../../src/contracts/names.ts";
import { hasPair, readCertificate, storedPair } from "../../src/platform/process/certificates/key-pair.ts";
import { makeEmptySecrets } from "../builders/empty-secrets.ts";
import { describeReal } from "../harness/real-parts.ts";
import { createStack, type Stack } from "../harness/stack.ts";
import { waitFor } from "../harness/wait-for.ts";

const NAMESPACE = "tidemark-system";

describeReal("the bundled policy-engine", ["root", "bundle"], () => {
  let stack: Stack;
  beforeAll(async () => {
    const address = `127.0.0.1:${await freePort()}`;
    stack = await createStack({
      flags: { "policy-engine": ["--samples-address", address, "--samples-tls", "SelfMade"] },
    });
    await makeEmptySecrets(stack.client, NAMESPACE, Object.values(CERTIFICATE_SECRETS));
    await stack.start("policy-engine");
  });
  afterAll(() => stack?.close());

  it("makes the certificates for the stream of samples", async () => {
    for (const name of Object.values(CERTIFICATE_SECRETS)) {
      const secret = await waitFor(`Secret ${name}`, async () => {
        const found = await stack.client.get(SECRETS, { namespace: NAMESPACE, name });
        return found !== undefined && hasPair(found) ? found : undefined;
      });
      expect(readCertificate(storedPair(secret).certificatePem)).toMatchObject({
        subject: expect.stringContaining("CN="),
      });
    }
  });
});
