// The client of the Tasks extension, over a server's stdin and stdout.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { TaskCancelledError, resultFromTaskOutcome, withTasks } from "@modelcontextprotocol/ext-tasks/client";

const server = spawn(process.argv[2], [], { stdio: ["pipe", "pipe", "inherit"] });
const asked = new Map();
createInterface({ input: server.stdout }).on("line", (line) => {
  const m = JSON.parse(line);
  asked.get(m.id)?.(m.error ? { kind: "error", error: m.error } : { kind: "result", result: m.result });
});
let last = 0;
const polled = [];
const key = "io.modelcontextprotocol/";
const dispatch = (request) => {
  const id = ++last;
  if (request.method.startsWith("tasks/")) polled.push(request.method);
  const own = request.params?._meta ?? {};
  const _meta = { [key + "clientCapabilities"]: {}, ...own, [key + "protocolVersion"]: "2026-07-28", [key + "clientInfo"]: { name: "peer", version: "1" } };
  server.stdin.write(JSON.stringify({ jsonrpc: "2.0", id, ...request, params: { ...request.params, _meta } }) + "\n");
  return new Promise((resolve) => asked.set(id, resolve));
};
const never = () => () => {};
const port = {
  endpointId: "mbox", taskCapabilities: { generation: "v2", capabilities: {} }, invalidated: false,
  dispatch, onServerRequest: never, onNotification: never, onInvalidated: never,
};
const plain = async (name, args) => (await dispatch({ method: "tools/call", params: { name, arguments: args } })).result;

const session = withTasks(port, {});
const begin = async (title) => {
  const execution = await session.callTool("send_task", { title, to: "coder" }, { task: { preference: "require" } });
  const claimed = await plain("claim_task", {});
  return { execution, id: claimed.structuredContent.id };
};

const one = await begin("one");
await plain("complete_task", { id: one.id, output: "all of it" });
const result = resultFromTaskOutcome((await one.execution.settle()).outcome);
assert.equal(result.structuredContent.output, "all of it");
assert(!result.isError);

const two = await begin("two");
await plain("fail_task", { id: two.id, reason: "no disk", final: true });
const failed = resultFromTaskOutcome((await two.execution.settle()).outcome);
assert(failed.isError && failed.structuredContent.error.message === "no disk");

const three = await begin("three");
await session.cancelTask(three.id);
assert.equal((await plain("get_task", { id: three.id })).structuredContent.state, "in-progress");
console.log(`cancel ${three.id}`); // the test does, as an operator
await three.execution.settle().then(
  ({ outcome }) => assert.throws(() => resultFromTaskOutcome(outcome), TaskCancelledError),
  (error) => assert(error instanceof TaskCancelledError, error),
);
assert(polled.includes("tasks/get") && polled.includes("tasks/cancel"));
assert.equal((await dispatch({ method: "tasks/get", params: { taskId: one.id } })).error.code, -32021);
await session.close();
server.stdin.end();
console.log("done");
