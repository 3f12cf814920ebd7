"""What a call on 16 elements costs: straight into a kernel, or as an operator in PyTorch's dispatcher.

    python scripts/dispatcher_cost.py        # builds a C++ extension against the installed PyTorch: a minute or so

The operator is the cheapest that C++ can make: its own autograd function, no checks. See docs/torch.md.
"""

import tempfile

import torch
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline

from isrlu.torch import isrlu
from isrlu_lab.environment import cpu_name
from isrlu_lab.measure.timer import measure, ratio

SOURCE = """
#include <torch/library.h>
using torch::autograd::AutogradContext, torch::autograd::variable_list;

at::Tensor forward(const at::Tensor& x, double alpha)
{
    at::Tensor y = at::empty_like(x);
    const float* in = x.data_ptr<float>();
    float* out = y.data_ptr<float>();
    for (int64_t i = 0; i < x.numel(); ++i)
        out[i] = in[i] < 0 ? in[i] / std::sqrt(1 + float(alpha) * in[i] * in[i]) : in[i];
    return y;
}
struct Activation : torch::autograd::Function<Activation> {
    static at::Tensor forward(AutogradContext* context, const at::Tensor& x, double alpha)
    {
        at::AutoDispatchBelowADInplaceOrView below;
        context->save_for_backward({x});
        context->saved_data["alpha"] = alpha;
        static auto op = c10::Dispatcher::singleton().findSchemaOrThrow("dispatcher_cost::isrlu", "")
                             .typed<at::Tensor(const at::Tensor&, double)>();
        return op.call(x, alpha);
    }
    static variable_list backward(AutogradContext* context, variable_list grads)
    {
        const at::Tensor x = context->get_saved_variables()[0], grad = grads[0].contiguous();
        const at::Tensor result = at::empty_like(x);
        const float alpha = context->saved_data["alpha"].toDouble();
        const float *in = x.data_ptr<float>(), *g = grad.data_ptr<float>();
        for (int64_t i = 0; i < x.numel(); ++i) {
            const float r = 1 / std::sqrt(1 + alpha * in[i] * in[i]);
            result.data_ptr<float>()[i] = in[i] < 0 ? g[i] * r * r * r : g[i];
        }
        return {result, at::Tensor()};
    }
};
at::Tensor with_gradient(const at::Tensor& x, double alpha) { return Activation::apply(x, alpha); }

TORCH_LIBRARY(dispatcher_cost, m) { m.def("isrlu(Tensor x, float alpha) -> Tensor"); }
TORCH_LIBRARY_IMPL(dispatcher_cost, CPU, m) { m.impl("isrlu", forward); }
TORCH_LIBRARY_IMPL(dispatcher_cost, Autograd, m) { m.impl("isrlu", with_gradient); }
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        load_inline("dispatcher_cost", SOURCE, build_directory=folder, is_python_module=False, extra_cflags=["-O2"])
    torch.set_num_threads(1)
    operator = torch.ops.dispatcher_cost.isrlu.default
    x, upstream = torch.randn(16), torch.ones(16)
    leaf = x.clone().requires_grad_()
    functions = {"F.relu": F.relu, "F.elu": F.elu, "isrlu": isrlu, "operator": lambda x: operator(x, 1.0)}
    torch.testing.assert_close(functions["operator"](x), isrlu(x))
    calls = {
        "forward": {name: (lambda f=f: f(x)) for name, f in functions.items()},
        "forward and backward": {name: (lambda f=f: f(leaf).backward(upstream)) for name, f in functions.items()},
    }
    print(f"{cpu_name()}, PyTorch {torch.__version__}, 16 float32 elements, one thread: median us per call (of F.elu)")
    for title, jobs in calls.items():
        found = measure(jobs, rounds=101)
        shown = [f"{name} {found[name].median * 1e6:.2f} ({ratio(found, name, 'F.elu'):.2f})" for name in jobs]
        print(f"{title}: {', '.join(shown)}")


if __name__ == "__main__":
    main()
