// The TypeScript SDK's client: it holds each result against the tool's schema, by ajv.
import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const client = new Client({ name: "peer", version: "1" });
await client.connect(new StdioClientTransport({ command: process.argv[2], args: [], env: process.env }));

const { tools } = await client.listTools();
assert.equal(tools.length, 18);
const call = async (name, args = {}, options) => {
  const r = await client.callTool({ name, arguments: args }, undefined, options);
  assert(!r.isError, `${name}: ${r.content?.[0]?.text}`);
  assert.deepEqual(JSON.parse(r.content[0].text), r.structuredContent);
  return r.structuredContent;
};

const { id } = await call("send_task", { title: "Read it", to: "coder", key: "k", context: { a: [1] } });
const claimed = await call("claim_task");
assert.equal(claimed.id, id);
await call("report_progress", { id, percent: 10, message: "page 1" });

const said = await call("post_message", { channel: "office", text: "I read it", task: id, id: "m1" });
assert.equal((await call("read_channel", { channel: "office" })).messages.at(-1).id, said.id);
assert.deepEqual((await call("list_inbox")).items, []);

let told = 0;
const waiting = call("wait_for_task", { id, timeout_seconds: 60 }, { onprogress: () => (told++, ended ??= call("complete_task", { id, output: { pages: 3 } })) });
let ended;
const outcome = await waiting;
await ended;
assert(told > 0);
assert.deepEqual(outcome.output, { pages: 3 });

await call("get_task", { id });
await call("why_task", { id });
await call("list_tasks", { state: ["completed"] });
await call("tail_ledger", { n: 3 });
assert.equal((await call("verify")).faults, 0);
const decision = await call("record_decision", { task: id, context: "c", options: ["a"], decision: "a" });
await call("record_change", { description: "d", rationale: "r", before: "b", after: "a", rollback: "o", verification: "v" });

const refused = await client.callTool({ name: "get_task", arguments: { id: "nowhere" } });
assert(refused.isError && refused.content[0].text.includes("next: "));

const second = (await call("send_task", { title: "Wait", to: "tester" })).id;
await assert.rejects(call("wait_for_task", { id: second, timeout_seconds: 300 }, { signal: AbortSignal.timeout(200) }));

for (const uri of [`mbox://task/${id}`, "mbox://ledger", "mbox://ledger/2", decision.resource, "mbox://message/m1"])
  assert((await client.readResource({ uri })).contents[0].text.length > 0);
assert.equal((await client.listResourceTemplates()).resourceTemplates.length, 4);
assert((await client.getPrompt({ name: "work_as_agent" })).messages[0].content.text.includes("agent coder"));
await client.close();
console.log("done");
