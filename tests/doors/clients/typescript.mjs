// Drives the sample server with an official TypeScript client, and prints one line of JSON with what it saw.
//
//     node typescript.mjs v1|v2 MARKER COMMAND ARGUMENT…
//
// Ends with a call that is cancelled; whether its child is gone is for the caller to see, by MARKER (seconds to sleep).
const [, , version, marker, ...command] = process.argv;
const load = async () => {
  if (version === "v1") {
    const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
    const { StdioClientTransport } = await import("@modelcontextprotocol/sdk/client/stdio.js");
    return { Client, StdioClientTransport };
  }
  const { Client } = await import("@modelcontextprotocol/client");
  const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
  return { Client, StdioClientTransport };
};

const { Client, StdioClientTransport } = await load();
const client = new Client({ name: "hotkernel-tests", version: "0" }, {});
const transport = new StdioClientTransport({
  command: command[0],
  args: command.slice(1),
  env: process.env,
  stderr: "ignore",
});
await client.connect(transport);
const call = (name, args, options = {}) =>
  version === "v1"
    ? client.callTool({ name, arguments: args }, undefined, options)
    : client.callTool({ name, arguments: args }, options);

const seen = { server: client.getServerVersion(), tools: (await client.listTools()).tools.map((tool) => tool.name) };
seen.echo = (await call("echo", { target: "hi" })).structuredContent.said.target;
const refused = await call("refuse", {});
seen.refused = [refused.isError, refused.structuredContent.fix];
let heard = 0;
await call("wait", { timeout: 2.2 }, { onprogress: () => (heard += 1) });
seen.heard = heard;
const stop = new AbortController();
setTimeout(() => stop.abort("enough"), 1500);
try {
  await call("wait", { timeout: Number(marker) }, { signal: stop.signal });
  seen.aborted = false;
} catch {
  seen.aborted = true;
}
await new Promise((resolve) => setTimeout(resolve, 3000));
seen.still = (await call("nothing", {})).structuredContent.status;
console.log(JSON.stringify(seen));
await client.close();
process.exit(0);
