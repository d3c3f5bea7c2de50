// Reads tasks without the library, and asks a queue to start one. It needs Node 18 or later, but no packages. With the
// AWS SDK, its clients replace `call`. The page about the table promises these attributes to other programs.
import { createHash, createHmac } from "node:crypto";

const LATEST_FORMAT = 1; // `v` of the rows that this program knows

/** Returns a task by its key, strongly consistent, or undefined. `useCase` is the stored name. */
export async function getTask(table, useCase, taskId) {
  const Key = { task_id: { S: taskId }, use_case_id: { S: useCase } };
  const { Item } = await call("dynamodb", "DynamoDB_20120810.GetItem", { TableName: table, Key, ConsistentRead: true });
  if (!Item) return undefined;
  if (Number(Item.v.N) > LATEST_FORMAT) throw new Error(`${taskId} has format ${Item.v.N}`);
  if (Item.data?.M) throw new Error(`data of ${taskId} is stored off-row`);
  return { ...entry(Item), data: JSON.parse(Item.data?.S ?? "{}") };
}

/** Yields all tasks in a state, given its code, ordered by `due_time` within a shard. Eventually consistent. */
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

/** Asks a step's handler to run a task. `handles(..., create_if_missing=True)` creates it if it is new. */
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

/** Sends a request, signed with the credentials in the environment. Throws AWS's error response. */
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

  const response = await fetch(endpoint, { method: "POST", headers, body });
  const text = await response.text();
  if (!response.ok) throw new Error(`${target}: ${response.status} ${text}`);
  return JSON.parse(text);
}

const hash = (text) => createHash("sha256").update(text).digest("hex");
const hmac = (key, text) => createHmac("sha256", key).update(text);
