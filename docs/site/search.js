// Leave small words out of a search. The theme looks for "a*" in "run a worker", and so finds every word with an a.
const SMALL =
  /^(a|an|and|are|as|at|be|by|can|do|does|for|from|how|i|if|in|is|it|its|my|of|on|or|so|that|the|this|to|was|what|when|where|which|who|why|with)$/i;
const QUERY = 2;
const post = Worker.prototype.postMessage;

Worker.prototype.postMessage = function (message, ...rest) {
  if (message?.type === QUERY) {
    const words = message.data.split(/\s+/).filter((word) => !SMALL.test(word));
    if (words.length) message = { ...message, data: words.join(" ") };
  }
  return post.call(this, message, ...rest);
};
