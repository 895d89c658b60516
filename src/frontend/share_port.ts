/** Whether several servers of one process can accept on one port here. */
import { createServer, type Server } from "node:http";

/** Tries it on loopback: `node:http` of older runtimes (Deno 2.6) takes the option and ignores it. */
export async function canSharePort(): Promise<boolean> {
  const servers: Server[] = [];
  try {
    const port = await listenShared(servers, 0);
    await listenShared(servers, port);
    return true;
  } catch {
    return false;
  } finally {
    for (const server of servers) server.close();
  }
}

function listenShared(servers: Server[], port: number): Promise<number> {
  const server = createServer();
  return new Promise((resolve, reject) => {
    server.on("error", reject);
    server.listen({ host: "127.0.0.1", port, reusePort: true }, () => {
      servers.push(server);
      const address = server.address();
      resolve(typeof address === "object" && address !== null ? address.port : 0);
    });
  });
}
