// Ask the search of the site, as a browser does: by the theme's own worker, and the script that cleans a query.
import { readFileSync, readdirSync } from "node:fs";
import { runInThisContext } from "node:vm";

const [site, ...queries] = process.argv.slice(2);
const read = (path) => readFileSync(`${site}/${path}`, "utf-8");
const workers = "assets/javascripts/workers";
const [worker] = readdirSync(`${site}/${workers}`).filter((name) => /^search\..*\.js$/.test(name));
const replies = [];
let listen;

globalThis.self = globalThis;
globalThis.addEventListener = (_, listener) => (listen = listener);
globalThis.postMessage = (message) => replies.push(message);
runInThisContext(read(`${workers}/${worker}`));
globalThis.Worker = function () {};
Worker.prototype.postMessage = (data) => listen({ data });
runInThisContext(read("site/search.js"));

const SETUP = 0;
const QUERY = 2;
const search = new Worker();
await search.postMessage({ type: SETUP, data: { ...JSON.parse(read("search/search_index.json")), options: {} } });
for (const data of queries) await search.postMessage({ type: QUERY, data });
const [, ...results] = replies;
console.log(JSON.stringify(results.map(({ data }) => data.items.map(([first]) => first.location.split("#")[0]))));
