// Reads tasks without the library, and asks a queue to start one. Node 18 or later, no packages; with the AWS SDK, its
// clients replace `call`. What is read here is what the page of the table promises to other programs.
import { createHash, createHmac } from "node:crypto";

const LATEST_FORMAT = 1; // `v` of the rows that this program knows

/** A task by its key, strongly consistent; undefined if there is none. `useCase` is the stored name. */
export async function getTask(table, useCase, taskId) {
  const Key = { task_id: { S: taskId }, use_case_id: { S: useCase } };
  const { Item } = await call("dynamodb", "DynamoDB_20120810.GetItem", { TableName: table, Key, ConsistentRead: true });
  if (!Item) return undefined;
  if (Number(Item.v.N) > LATEST_FORMAT) throw new Error(`${taskId} has format ${Item.v.N}`);
  if (Item.data?.M) throw new Error(`data of ${taskId} is stored off-row`);
  return { ...entry(Item), data: JSON.parse(Item.data?.S ?? "{}") };
}

/** All tasks in a state, by its code, in the order of `due_time` within a shard; eventually consistent. */
export async function* listState(table, useCase, code, shards = 1) {
  for (let shard = 0; shard < shards; shard++) {
    const query = {
      TableName: table,
      IndexName: "status-index",
      KeyConditionExpression: "status_key = :key",
      ExpressionAttributeValues: { ":key": { S: `${useCase}#${code}#${shard}` } },
    };
    do {
      const { Items, LastEvaluatedKey } = await call("dynamodb", "DynamoDB_20120810.Query", query);
      yield* Items.map(entry);
      query.ExclusiveStartKey = LastEvaluatedKey;
    } while (query.ExclusiveStartKey);
  }
}

/** Ask the handler of a step to run a task; `handles(..., create_if_missing=True)` creates it if it is new. */
export async function startTask(queueUrl, taskId) {
  const MessageBody = JSON.stringify({ task_id: taskId });
  await call("sqs", "AmazonSQS.SendMessage", { QueueUrl: queueUrl, MessageBody });
}

function entry(item) {
  return {
    taskId: item.task_id.S,
    code: Number(item.status.N),
    attempt: Number(item.attempt.N),
    dueTime: item.due_time.S,
    lastError: item.last_error?.S,
  };
}

/** Send a request that is signed with the credentials of the environment; throws what AWS answers to a wrong one. */
async function call(service, target, input) {
  const env = process.env;
  const region = env.AWS_REGION;
  const endpoint = env[`AWS_ENDPOINT_URL_${service.toUpperCase()}`] ?? `https://${service}.${region}.amazonaws.com`;
  const body = JSON.stringify(input);
  const time = new Date().toISOString().replace(/[-:]|\.\d+/g, "");
  const headers = { "content-type": "application/x-amz-json-1.0", host: new URL(endpoint).host, "x-amz-date": time };
  if (env.AWS_SESSION_TOKEN) headers["x-amz-security-token"] = env.AWS_SESSION_TOKEN;
  headers["x-amz-target"] = target;

  // https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
  const names = Object.keys(headers).join(";"); // in alphabetical order
  const lines = Object.entries(headers).map(([name, value]) => `${name}:${value}\n`).join("");
  const scope = [time.slice(0, 8), region, service, "aws4_request"];
  const request = hash(["POST", "/", "", lines, names, hash(body)].join("\n"));
  const key = scope.reduce((key, part) => hmac(key, part).digest(), `AWS4${env.AWS_SECRET_ACCESS_KEY}`);
  const signature = hmac(key, ["AWS4-HMAC-SHA256", time, scope.join("/"), request].join("\n")).digest("hex");
  const credential = `${env.AWS_ACCESS_KEY_ID}/${scope.join("/")}`;
  headers.authorization =
    `AWS4-HMAC-SHA256 Credential=${credential}, SignedHeaders=${names}, Signature=${signature}`;

  const answer = await fetch(endpoint, { method: "POST", headers, body });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${target}: ${answer.status} ${text}`);
  return JSON.parse(text);
}

const hash = (text) => createHash("sha256").update(text).digest("hex");
const hmac = (key, text) => createHmac("sha256", key).update(text);
