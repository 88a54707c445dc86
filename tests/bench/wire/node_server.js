// A peer: the JSON-RPC library that VS Code's own servers use, doing the same work.
const rpc = require('vscode-jsonrpc/node');
const connection = rpc.createMessageConnection(
  new rpc.StreamMessageReader(process.stdin),
  new rpc.StreamMessageWriter(process.stdout),
);
connection.onRequest('initialize', () => ({ capabilities: {} }));
connection.onRequest('test/echo', () => null);
connection.onRequest('test/task', async () => null);
connection.onRequest('test/sleep', (params, token) => new Promise((resolve, reject) => {
  const timer = setTimeout(() => resolve(null), params.seconds * 1000);
  token.onCancellationRequested(() => {
    clearTimeout(timer);
    reject(new rpc.ResponseError(rpc.ErrorCodes.RequestCancelled ?? -32800, 'cancelled'));
  });
}));
connection.onNotification('initialized', () => {});
connection.listen();
