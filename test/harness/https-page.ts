// One question over HTTPS to a server on this machine, on a connection of its own.
import { request } from "node:https";

export interface HttpsPage {
  readonly status: number;
  readonly body: string;
  readonly challenge: string | undefined;
}

export interface HttpsQuestion {
  readonly port: number;
  readonly path: string;
  readonly token?: string | undefined;
  /** Checks the server's certificate: by this CA, for this name. */
  readonly trust?: { readonly ca: string; readonly servername: string };
}

export function askHttps({ port, path, token, trust }: HttpsQuestion): Promise<HttpsPage> {
  const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const checked = trust ?? { rejectUnauthorized: false };
  return new Promise((resolve, reject) => {
    const asking = request({ host: "127.0.0.1", port, path, headers, agent: false, ...checked }, (response) => {
      let body = "";
      response.setEncoding("utf8").on("data", (part: string) => {
        body += part;
      });
      response.on("end", () =>
        resolve({ status: response.statusCode ?? 0, body, challenge: response.headers["www-authenticate"] }),
      );
    });
    asking.once("error", reject).end();
  });
}
