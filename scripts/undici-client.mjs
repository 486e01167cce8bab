// What the processes use of undici, for the bundle. Its index loads fetch, WebSocket, caches and mocks as well: half of its source, 45 ms of
// each start and 9 MiB of each process.
import api from "../node_modules/undici/lib/api/index.js";
import Agent from "../node_modules/undici/lib/dispatcher/agent.js";
import Dispatcher from "../node_modules/undici/lib/dispatcher/dispatcher.js";
import Pool from "../node_modules/undici/lib/dispatcher/pool.js";
import ProxyAgent from "../node_modules/undici/lib/dispatcher/proxy-agent.js";

// As its index does.
Object.assign(Dispatcher.prototype, api);

export { Agent, Pool, ProxyAgent };
