// The weights of an LSTM or GRU, packed once, as a Python object.
//
// It remembers the parameters that it was packed from: the objects, their addresses, shapes and strides, and PyTorch's
// count of their in-place changes. A write that PyTorch does not count (through `.data`, a NumPy view or another
// process) goes unseen.
#pragma once

#include <array>

#include <nanobind/nanobind.h>

#include "python/torch_tensor.hpp"
#include "recurrent/run_layer.hpp"

namespace isrlu {

class PackedParameters {
public:
    // parameters: the module's dictionary. names: of w_ih, w_hh and, if there are biases, b_ih and b_hh.
    PackedParameters(int kernel, nanobind::dict parameters, nanobind::tuple names);

    // Whether the dictionary still has the same parameters, unchanged.
    bool is_current(PyObject* parameters) const;
    bool wants_grad() const;  // whether a parameter does; asked only while gradients are recorded

    const PackedWeights& weights() const { return weights_; }
    Type type() const { return type_; }
    Cell cell() const { return cell_; }

private:
    struct Source {
        nanobind::object name, tensor;
        nanobind::object alias;  // holds the memory: no other weight can get its address after `parameter.data = ...`
        TensorView view;  // of the alias
        long long version = -1;
    };
    std::array<Source, 4> sources_;
    std::size_t count_ = 0;
    Cell cell_;
    Type type_;
    PackedWeights weights_;

    PackedWeights pack(int kernel, nanobind::dict parameters, nanobind::tuple names);
};

}  // namespace isrlu
